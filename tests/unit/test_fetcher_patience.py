"""How long an answer is waited for: by the domain's own latencies, within bounds."""

from __future__ import annotations

import pytest

from limpet.fetcher.patience import ENOUGH, FLOOR_SECONDS, Patience


def after(*latencies: float) -> Patience:
    patience = Patience()
    for seconds in latencies:
        patience.answered("shop.test", seconds)
    return patience


def test_f3_a_domain_that_is_not_known_yet_has_all_the_time_of_the_order() -> None:
    assert Patience().seconds("shop.test", at_most=60.0) == 60.0
    assert after(*[0.1] * (ENOUGH - 1)).seconds("shop.test", at_most=60.0) == 60.0


def test_f3_a_fast_domain_is_waited_for_no_less_than_the_floor() -> None:
    patience = after(*[0.01] * 100)
    assert patience.seconds("shop.test", at_most=60.0) == FLOOR_SECONDS
    assert patience.seconds("other.test", at_most=60.0) == 60.0


@pytest.mark.parametrize("usual", [2.0, 5.0, 10.0])
def test_f3_a_slow_domain_has_several_times_what_it_usually_takes(usual: float) -> None:
    seconds = after(*[usual] * 100).seconds("shop.test", at_most=600.0)
    assert 2.5 * usual < seconds < 4 * usual


def test_f3_a_domain_whose_latencies_vary_has_more_time_than_a_steady_one() -> None:
    steady, varied = after(*[3.0] * 100), after(*[1.0, 5.0] * 50)
    assert varied.seconds("shop.test", at_most=600.0) > 1.5 * steady.seconds("shop.test", at_most=600.0)


def test_f3_the_orders_own_end_is_never_passed() -> None:
    patience = after(*[30.0] * 100)
    assert patience.seconds("shop.test", at_most=12.0) == 12.0
    assert after(*[0.01] * 100).seconds("shop.test", at_most=1.5) == 1.5


def test_f3_each_timeout_doubles_the_patience_until_an_answer_comes() -> None:
    patience = after(*[0.01] * 100)
    found = []
    for _ in range(4):
        found.append(patience.seconds("shop.test", at_most=30.0))
        patience.timed_out("shop.test")
    assert found == [5.0, 10.0, 20.0, 30.0]
    patience.answered("shop.test", 0.01)
    assert patience.seconds("shop.test", at_most=30.0) == 5.0


def test_f3_only_so_many_domains_are_remembered() -> None:
    patience = Patience(most=10)
    for number in range(100):
        patience.answered(f"{number}.test", 1.0)
        patience.timed_out(f"unknown-{number}.test")
    assert len(patience) == 10
