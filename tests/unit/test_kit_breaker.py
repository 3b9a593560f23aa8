"""The circuit breaker: every transition, one probe at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from limpet.kit.breaker import Breaker, State


def breaker() -> Breaker:
    return Breaker("db", failure_threshold=3, timeout_seconds=60, success_threshold=2)


def opened() -> Breaker:
    broken = breaker()
    for _ in range(3):
        assert broken.may_call(0)
        broken.failed(0)
    assert broken.state is State.OPEN
    return broken


def half_open() -> Breaker:
    """With its probe under way."""
    broken = opened()
    assert broken.may_call(60)
    assert broken.state is State.HALF_OPEN
    return broken


def test_it_opens_at_the_threshold_and_not_before() -> None:
    fresh = breaker()
    fresh.failed(0)
    fresh.failed(0)
    assert (fresh.state, fresh.may_call(0)) == (State.CLOSED, True)
    fresh.failed(0)
    assert (fresh.state, fresh.may_call(0)) == (State.OPEN, False)


def test_a_success_between_failures_starts_the_count_again() -> None:
    fresh = breaker()
    for _ in range(10):
        fresh.failed(0)
        fresh.failed(0)
        fresh.succeeded()
    assert fresh.state is State.CLOSED


def test_an_open_breaker_refuses_until_its_time_has_passed() -> None:
    broken = opened()
    assert [broken.may_call(now) for now in (0, 30, 59.9)] == [False, False, False]
    assert broken.may_call(60)


def test_half_open_lets_one_probe_through_at_a_time() -> None:
    broken = half_open()
    assert [broken.may_call(61), broken.may_call(62)] == [False, False]
    broken.succeeded()
    assert [broken.may_call(63), broken.may_call(63)] == [True, False]


def test_enough_good_probes_close_it_and_the_old_failures_are_forgotten() -> None:
    broken = half_open()
    states = []
    broken.succeeded()
    states.append(broken.state)
    assert broken.may_call(61)
    broken.succeeded()
    states.append(broken.state)
    assert states == [State.HALF_OPEN, State.CLOSED]
    assert [broken.may_call(61) for _ in range(5)] == [True] * 5
    broken.failed(61)
    broken.failed(61)
    assert broken.state is State.CLOSED


def test_a_failed_probe_opens_it_again_for_the_whole_time() -> None:
    broken = half_open()
    broken.failed(70)
    assert [broken.state, broken.may_call(129), broken.may_call(130)] == [State.OPEN, False, True]


def test_good_probes_before_a_failed_one_do_not_count_later() -> None:
    broken = half_open()
    broken.succeeded()
    assert broken.may_call(61)
    broken.failed(61)
    assert broken.may_call(121)
    broken.succeeded()
    assert broken.state is State.HALF_OPEN


def test_results_of_calls_from_before_it_opened_do_not_move_it() -> None:
    broken = opened()
    broken.failed(50)
    broken.succeeded()
    assert (broken.state, broken.opened_at) == (State.OPEN, 0)


def test_a_probe_that_never_comes_back_does_not_close_the_door_for_ever() -> None:
    broken = half_open()
    assert not broken.may_call(119)
    assert broken.may_call(120)
    assert not broken.may_call(121)


def test_it_counts_calls_and_refusals() -> None:
    broken = opened()
    broken.may_call(1)
    broken.may_call(60)
    broken.succeeded()
    assert (broken.total_calls, broken.total_failures, broken.total_successes, broken.total_rejections) == (4, 3, 1, 1)


@given(st.lists(st.sampled_from(["ask", "good", "bad", "wait"]), max_size=80))
def test_whatever_happens_half_open_never_has_two_probes_under_way(steps: list[str]) -> None:
    subject, now, probing = breaker(), 0.0, False
    for step in steps:
        if step == "wait":
            # Longer than a probe may take: the one under way counts as lost.
            now, probing = now + 60, False
        elif step == "ask":
            went = subject.may_call(now)
            if subject.state is State.HALF_OPEN and went:
                assert not probing
                probing = True
        elif step == "good":
            subject.succeeded()
            probing = False
        else:
            subject.failed(now)
            probing = False
