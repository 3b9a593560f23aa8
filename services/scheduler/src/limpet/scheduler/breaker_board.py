"""The breaker of a domain, shared by the whole cluster: when a site refuses us, it is left alone for a while. Pure.

Closed: all may go. Open: nothing goes before the cool-down is over. Half-open: one probe at a time; enough good ones close
it, a bad one opens it again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from limpet.scheduler.politeness import Pace

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"
# A share of fewer answers than this says nothing.
LEAST_ANSWERS = 10


class Answer(NamedTuple):
    """How a site took one request. `proxy_id` is 0 for a direct one; a hard refusal is a page that says so."""

    good: bool
    started_at: datetime | None
    proxy_id: int = 0
    hard: bool = False
    why: str = ""


def reopens_at(pace: Pace) -> datetime | None:
    """When an open breaker lets the first probe through."""
    if pace.breaker_state != OPEN or pace.breaker_opened_at is None:
        return None
    return pace.breaker_opened_at + timedelta(seconds=pace.breaker_cooldown_seconds)


def try_again(pace: Pace, now: datetime) -> None:
    """Open becomes half-open when its time has come."""
    moment = reopens_at(pace)
    if moment is not None and now >= moment:
        pace.breaker_state, pace.breaker_in_a_row = HALF_OPEN, 0


def take(pace: Pace, answer: Answer, *, now: datetime) -> None:
    """Count one answer, and change the state where that is due."""
    late = (
        pace.breaker_opened_at is not None
        and answer.started_at is not None
        and answer.started_at < pace.breaker_opened_at
    )
    if pace.breaker_state == OPEN or (pace.breaker_state == HALF_OPEN and late):
        return
    if pace.breaker_state == HALF_OPEN:
        _probed(pace, answer, now=now)
        return
    _start_window(pace, now)
    if answer.good:
        pace.breaker_good += 1
        pace.breaker_in_a_row = 0
        return
    if not _blames_the_domain(pace, answer):
        return
    pace.breaker_bad += 1
    pace.breaker_in_a_row += 1
    answers = pace.breaker_good + pace.breaker_bad
    if (
        answer.hard
        or pace.breaker_in_a_row >= pace.breaker_failures
        or (answers >= LEAST_ANSWERS and pace.breaker_bad >= pace.breaker_rate * answers)
    ):
        _open(pace, now, answer.why)


def _blames_the_domain(pace: Pace, answer: Answer) -> bool:
    """Of requests through proxies only a further proxy counts: one that the site dislikes says nothing about others."""
    if not answer.proxy_id or answer.hard:
        return True
    known = pace.breaker_proxies.split(",") if pace.breaker_proxies else []
    if str(answer.proxy_id) in known:
        return False
    pace.breaker_proxies = ",".join([*known, str(answer.proxy_id)])
    return True


def _probed(pace: Pace, answer: Answer, *, now: datetime) -> None:
    if not answer.good:
        _open(pace, now, answer.why)
        return
    pace.breaker_in_a_row += 1
    if pace.breaker_in_a_row >= pace.breaker_successes:
        pace.breaker_state, pace.breaker_opened_at, pace.breaker_reason = CLOSED, None, None
        pace.breaker_in_a_row = 0
        _clear_window(pace, now)


def _open(pace: Pace, now: datetime, why: str) -> None:
    pace.breaker_state, pace.breaker_opened_at, pace.breaker_reason = OPEN, now, why[:200]
    pace.breaker_in_a_row = 0
    _clear_window(pace, now)


def _start_window(pace: Pace, now: datetime) -> None:
    started = pace.breaker_window_at
    if started is None or now - started >= timedelta(seconds=pace.breaker_window_seconds):
        _clear_window(pace, now)


def _clear_window(pace: Pace, now: datetime) -> None:
    pace.breaker_window_at, pace.breaker_good, pace.breaker_bad, pace.breaker_proxies = now, 0, 0, ""
