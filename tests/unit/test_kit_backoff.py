"""Delays grow, vary and never pass their cap."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from limpet.kit.backoff import delay

ATTEMPTS = st.integers(min_value=-3, max_value=10_000)
SECONDS = st.floats(min_value=0.001, max_value=1000)
SEEDS = st.integers(min_value=0, max_value=2**32)


@given(attempt=ATTEMPTS, base=SECONDS, cap=SECONDS, jitter=st.floats(min_value=0, max_value=1), seed=SEEDS)
def test_no_delay_is_negative_or_over_the_cap(attempt: int, base: float, cap: float, jitter: float, seed: int) -> None:
    assert 0 <= delay(attempt, base=base, cap=cap, rng=Random(seed), jitter=jitter) <= cap


@given(attempt=st.integers(min_value=1, max_value=20), base=SECONDS, seed=SEEDS)
def test_below_the_cap_a_delay_is_the_doubled_base_give_or_take_the_jitter(
    attempt: int, base: float, seed: int
) -> None:
    grown = base * 2 ** (attempt - 1)
    found = delay(attempt, base=base, cap=grown * 2, rng=Random(seed), jitter=0.25)
    assert grown * 0.7499 <= found <= grown * 1.2501


@given(attempt=st.integers(min_value=1, max_value=200), base=SECONDS, cap=SECONDS, seed=SEEDS)
def test_a_later_failure_never_waits_less_with_the_same_dice(attempt: int, base: float, cap: float, seed: int) -> None:
    now, later = (delay(number, base=base, cap=cap, rng=Random(seed)) for number in (attempt, attempt + 1))
    assert later >= now


def test_delays_at_the_cap_still_differ_so_that_many_do_not_come_back_at_once() -> None:
    rng = Random(1)
    delays = [delay(500, base=1, cap=10, rng=rng) for _ in range(200)]
    assert max(delays) == 10
    assert min(delays) < 8
    assert len(set(delays)) > 50


def test_without_jitter_the_delays_are_exact() -> None:
    assert [delay(n, base=0.5, cap=3, rng=Random(1), jitter=0) for n in (0, 1, 2, 3, 4, 5)] == [0.5, 0.5, 1, 2, 3, 3]
