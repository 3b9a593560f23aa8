"""Why a task that is due has no permit yet: the gates of its domain in the order in which dispatch meets them. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from limpet.scheduler.breaker_board import CLOSED
from limpet.scheduler.facts import MOST_AHEAD, Explanation, Facts, RobotsFacts, Wakes, Why
from limpet.scheduler.gates import closed_gate
from limpet.scheduler.politeness import Pace
from limpet.scheduler.wording import clock, times

GRANTED = "a permit is granted and the order goes to a fetcher"


def why_queued(facts: Facts) -> Explanation:
    """Of several closed gates the first: it alone keeps the task, whatever the others would say."""
    return (
        _closed(facts)
        or _robots(facts)
        or _half_open(facts)
        or _domain_full(facts)
        or _group_full(facts)
        or _platform_full(facts)
        or _in_line(facts)
    )


def estimate(facts: Facts) -> datetime | None:
    """When its turn comes, should nothing else happen. Without a delay it depends on how quickly the site answers."""
    if facts.pace.delay <= 0 or facts.pace.breaker_state != CLOSED or facts.ahead > MOST_AHEAD:
        return None
    return facts.pace.first_slot(facts.task.now) + facts.ahead * facts.pace.spacing


def still_closed(pace: Pace, at: datetime | None) -> str:
    """What its domain will be waiting for at that time, as far as is known today."""
    gate = closed_gate(pace, at) if at is not None else None
    if gate is None:
        return ""
    return f"; but then {gate.sentence}" + (f", until {clock(gate.until)}" if gate.until else "")


def _closed(facts: Facts) -> Explanation | None:
    gate = closed_gate(facts.pace, facts.task.now)
    if gate is None:
        return None
    why = Why(gate.name) if gate.name in set(Why) else Why.HELD
    if gate.until is None:
        return Explanation(why, gate.sentence, Wakes.PERSON, None, "its tasks are served in their order")
    then = still_closed(facts.pace, gate.until) or f"; then {_turn(facts)}"
    if why is Why.BREAKER_OPEN:
        then = f"one task at a time is sent as a probe; {times(facts.pace.breaker_successes, 'good answer')} in a row close the breaker"
    return Explanation(
        why, f"{gate.sentence}, until {clock(gate.until)}", Wakes.CLOCK, gate.until, then.removeprefix("; ")
    )


def _robots(facts: Facts) -> Explanation | None:
    if facts.task.kind == "robots" or not facts.pace.obey_robots:
        return None
    missing = facts.missing
    if missing is not None and missing.state == "unreachable":
        since = f" since {clock(missing.asked_since)}" if missing.asked_since else ""
        told = f": {missing.note}" if missing.note else ""
        sentence = f"{missing.url} cannot be reached{since}{told}; no page is fetched before it is read"
        return Explanation(
            Why.ROBOTS_UNREACHABLE, sentence, Wakes.ROBOTS_READ, missing.next_try_at, _once_read(facts, missing)
        )
    if missing is not None:
        sentence = f"{missing.url} has not been read yet, and no page is fetched before"
        return Explanation(
            Why.ROBOTS_UNREAD, sentence, Wakes.ROBOTS_READ, missing.next_try_at, _once_read(facts, missing)
        )
    if facts.word == "forbidden" and facts.robots is not None:
        sentence = f"{facts.robots.url} forbids it; it is cancelled as soon as its turn comes"
        return Explanation(
            Why.ROBOTS_FORBIDS, sentence, Wakes.CLOCK, estimate(facts), "it ends as cancelled, robots_disallowed"
        )
    return None


def _once_read(facts: Facts, missing: RobotsFacts) -> str:
    again = f"it is asked for again at {clock(missing.next_try_at)}; " if missing.next_try_at else ""
    return f"{again}once it is read, what it allows is fetched and what it forbids is cancelled"


def _half_open(facts: Facts) -> Explanation | None:
    pace = facts.pace
    if pace.breaker_state == CLOSED or pace.in_flight == 0:
        return None
    why = f" ({pace.breaker_reason})" if pace.breaker_reason else ""
    left = pace.breaker_successes - pace.breaker_in_a_row
    return Explanation(
        Why.BREAKER_HALF_OPEN,
        f"{pace.name} refused us{why} and is being probed: one request at a time, and one is under way",
        Wakes.PERMIT_BACK,
        None,
        f"a good answer lets the next task go as a probe, {times(left, 'more of them', 'more of them')} and all may go; "
        "a bad one opens the breaker again",
    )


def _domain_full(facts: Facts) -> Explanation | None:
    pace = facts.pace
    if pace.in_flight < pace.limit_now:
        return None
    less = _adapted(pace.limit_now, pace.max_concurrent_requests)
    sentence = f"{pace.name} has {pace.in_flight} of {pace.limit_now} requests in flight{less}"
    return Explanation(Why.DOMAIN_FULL, sentence, Wakes.PERMIT_BACK, None, f"when one comes back, {_turn(facts)}")


def _group_full(facts: Facts) -> Explanation | None:
    task = facts.task
    if not task.group_key or task.group_in_flight < task.group_limit:
        return None
    less = _adapted(task.group_limit, facts.pace.max_per_group)
    sentence = (
        f"the group {task.group_key} of {facts.pace.name} has {task.group_in_flight} of {task.group_limit} requests in "
        f"flight{less}"
    )
    return Explanation(
        Why.GROUP_FULL, sentence, Wakes.PERMIT_BACK, None, f"when one of its group comes back, {_turn(facts)}"
    )


def _adapted(limit: int, most: int) -> str:
    return f" (lowered from {most}, because the site blocked)" if limit < most else ""


def _platform_full(facts: Facts) -> Explanation | None:
    if facts.window is None or facts.permits_out < facts.window:
        return None
    if facts.fetchers == 0:
        sentence = f"no fetcher has been heard of, and {facts.permits_out} orders wait for one already"
        return Explanation(Why.NO_FETCHER, sentence, Wakes.PERMIT_BACK, None, "start a fetcher: it takes what waits")
    if facts.window == 0:
        sentence = f"all {facts.fetchers} fetchers are paused: they have no network, or too little memory"
        return Explanation(Why.PLATFORM_FULL, sentence, Wakes.PERMIT_BACK, None, f"when one goes on, {_turn(facts)}")
    sentence = f"all fetchers are busy: {facts.permits_out} orders are out, of {facts.window} that they can hold"
    return Explanation(Why.PLATFORM_FULL, sentence, Wakes.PERMIT_BACK, None, f"when one comes back, {_turn(facts)}")


def _in_line(facts: Facts) -> Explanation:
    """Nothing is closed: others come first, or the slot of its domain has not come."""
    pace, now = facts.pace, facts.task.now
    at = estimate(facts)
    if facts.ahead:
        about = f"; at its pace ({pace.delay:g} s) that takes until about {clock(at)}" if at else ""
        probing = ", which is being probed, one request at a time" if pace.breaker_state != CLOSED else ""
        sentence = f"{_count(facts.ahead)} of {pace.name} come before it{probing}{about}"
        return Explanation(Why.BEHIND_OTHERS, sentence, Wakes.CLOCK, at, GRANTED + still_closed(pace, at))
    first = pace.first_slot(now)
    if first > now + timedelta(seconds=facts.lead):
        sentence = f"it is the next one of {pace.name}, whose next slot is at {clock(first)}"
        return Explanation(Why.NEXT_SLOT, sentence, Wakes.CLOCK, first, GRANTED + still_closed(pace, first))
    sentence = f"it is the next one of {pace.name}, and nothing keeps it: the next round of permits takes it"
    return Explanation(Why.NEXT, sentence, Wakes.CLOCK, first, GRANTED)


def _turn(facts: Facts) -> str:
    return f"its turn comes after {_count(facts.ahead)}" if facts.ahead else "it is the next one"


def _count(ahead: int) -> str:
    return f"over {MOST_AHEAD:,} tasks" if ahead > MOST_AHEAD else times(ahead, "task")
