"""Counts by status become the numbers a person watches."""

from __future__ import annotations

from limpet.cli.tally import Pace, Tally, as_clock


def test_every_status_is_counted_once() -> None:
    statuses = ("pending", "queued", "crawling", "downloaded", "queued_parse", "parsing", "completed", "failed")
    tally = Tally.of(dict.fromkeys((*statuses, "paused", "cancelled"), 1))
    assert tally == Tally(queued=4, fetched=4, parsed=1, failed=2, total=10)
    assert not tally.finished


def test_s23_a_guess_that_found_nothing_is_no_page_and_no_failure() -> None:
    tally = Tally.of({"completed": 3, "failed": 0, "cancelled": 2, "missed": 1})
    assert (tally.parsed, tally.failed, tally.total, tally.finished) == (3, 1, 4, True)


def test_a_batch_is_finished_when_every_task_is_terminal() -> None:
    assert Tally.of({"completed": 3, "failed": 1, "cancelled": 1, "pending": 0}).finished


def test_an_empty_batch_has_not_finished() -> None:
    assert not Tally.of({}).finished


def test_a_status_unknown_here_is_never_taken_for_done() -> None:
    assert not Tally.of({"completed": 3, "frozen": 1}).finished


def test_the_pace_is_that_of_the_last_seconds() -> None:
    pace = Pace()
    for second in range(101):
        pace.add(second if second <= 50 else 50 + (second - 50) * 4, now=float(second))
    assert pace.per_second == 4.0
    assert pace.eta_seconds(Tally.of({"completed": 250, "pending": 40})) == 10.0


def test_no_pace_promises_nothing() -> None:
    pace = Pace()
    pace.add(0, now=1.0)
    assert pace.eta_seconds(Tally.of({"pending": 1})) is None


def test_seconds_read_as_a_clock() -> None:
    assert [as_clock(None), as_clock(5), as_clock(65), as_clock(3661)] == ["-:--", "0:05", "1:05", "1:01:01"]
