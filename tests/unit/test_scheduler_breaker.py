"""The breaker of a domain and the limits that follow its answers. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from limpet.scheduler.adapt import BREATH, take_answers
from limpet.scheduler.breaker_board import Answer, reopens_at, take, try_again
from limpet.scheduler.politeness import Pace, room
from tests.support.paces import make_pace

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def good(at: datetime = NOW) -> Answer:
    return Answer(good=True, started_at=at)


def bad(at: datetime = NOW, *, proxy_id: int = 0, hard: bool = False) -> Answer:
    return Answer(good=False, started_at=at, proxy_id=proxy_id, hard=hard, why="status 403")


def opened(now: datetime = NOW) -> Pace:
    pace = make_pace()
    take(pace, bad(hard=True), now=now)
    assert pace.breaker_state == "open"
    return pace


def test_s12_five_refusals_in_a_row_open_it_and_four_do_not() -> None:
    pace = make_pace()
    for _ in range(4):
        take(pace, bad(), now=NOW)
    assert pace.breaker_state == "closed"
    take(pace, good(), now=NOW)
    for _ in range(4):
        take(pace, bad(), now=NOW)
    assert pace.breaker_state == "closed", "a good answer in between starts the row anew"
    take(pace, bad(), now=NOW)
    assert (pace.breaker_state, pace.breaker_opened_at, pace.breaker_reason) == ("open", NOW, "status 403")


def test_s12_half_of_the_answers_of_a_window_open_it_too() -> None:
    pace = make_pace(breaker_failures=100)
    for _ in range(5):
        take(pace, good(), now=NOW)
        take(pace, bad(), now=NOW)
    assert pace.breaker_state == "open"


def test_s12_what_an_earlier_window_counted_is_forgotten() -> None:
    pace = make_pace(breaker_failures=100)
    for _ in range(9):
        take(pace, bad(), now=NOW)
    later = NOW + timedelta(seconds=61)
    take(pace, bad(), now=later)
    assert (pace.breaker_state, pace.breaker_bad) == ("closed", 1)


def test_s12_a_hard_rejection_opens_it_at_once() -> None:
    assert reopens_at(opened()) == NOW + timedelta(seconds=60)


def test_s12_one_proxy_that_is_refused_again_and_again_says_nothing_about_the_domain() -> None:
    pace = make_pace()
    for _ in range(20):
        take(pace, bad(proxy_id=7), now=NOW)
    assert pace.breaker_state == "closed"
    for proxy_id in range(8, 12):
        take(pace, bad(proxy_id=proxy_id), now=NOW)
    assert pace.breaker_state == "open", "five different ones do"


def test_s12_half_open_lets_one_probe_through_at_a_time_and_five_good_ones_close_it() -> None:
    pace = opened()
    try_again(pace, NOW + timedelta(seconds=59))
    assert pace.breaker_state == "open"
    later = NOW + timedelta(seconds=60)
    try_again(pace, later)
    assert pace.breaker_state == "half_open"
    for number in range(5):
        assert pace.breaker_state == "half_open", number
        assert room(pace, now=later, lead=SECOND, most=64) == 1
        pace.in_flight = 1
        assert room(pace, now=later, lead=SECOND, most=64) == 0
        pace.in_flight = 0
        take(pace, good(later), now=later)
    assert (pace.breaker_state, pace.breaker_opened_at) == ("closed", None)


def test_s12_a_bad_probe_opens_it_again_for_another_cool_down() -> None:
    pace = opened()
    later = NOW + timedelta(seconds=60)
    try_again(pace, later)
    take(pace, good(later), now=later)
    take(pace, bad(later), now=later)
    assert reopens_at(pace) == later + timedelta(seconds=60)


def test_s12_late_results_of_before_the_opening_change_nothing() -> None:
    pace = opened()
    take(pace, good(NOW - SECOND), now=NOW + SECOND)
    assert pace.breaker_state == "open"
    try_again(pace, NOW + timedelta(seconds=60))
    take(pace, bad(NOW - SECOND), now=NOW + timedelta(seconds=61))
    take(pace, good(NOW - SECOND), now=NOW + timedelta(seconds=61))
    assert (pace.breaker_state, pace.breaker_in_a_row) == ("half_open", 0)


def test_s11_a_block_halves_what_is_bearable_once_and_good_answers_bring_it_back_slowly() -> None:
    pace = make_pace(max_concurrent_requests=16, limit_now=16)
    take_answers(pace, good=0, blocked=9, most=16, now=NOW)
    assert pace.limit_now == 8, "what was under way together counts once"
    take_answers(pace, good=0, blocked=1, most=16, now=NOW + SECOND)
    assert pace.limit_now == 8
    take_answers(pace, good=0, blocked=1, most=16, now=NOW + BREATH)
    assert pace.limit_now == 4
    take_answers(pace, good=4, blocked=0, most=16, now=NOW + BREATH)
    assert pace.limit_now == 5, "one more for a round of good answers"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3), st.integers(0, 20)), max_size=60), st.integers(1, 40))
def test_s11_the_limit_stays_between_one_and_the_configured_one(steps: list[tuple[int, int, int]], most: int) -> None:
    pace, now = make_pace(max_concurrent_requests=most, limit_now=most), NOW
    for good_ones, blocked, seconds in steps:
        now += timedelta(seconds=seconds)
        before = pace.limit_now
        take_answers(pace, good=good_ones, blocked=blocked, most=most, now=now)
        assert 1 <= pace.limit_now <= most
        assert blocked == 0 or pace.limit_now <= before
