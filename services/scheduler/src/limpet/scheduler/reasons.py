"""Why a task stands where it stands, and what moves it on. Pure: the facts in, one answer out."""

from __future__ import annotations

from dataclasses import replace

from limpet.scheduler.facts import Explanation, Facts, Wakes, Why
from limpet.scheduler.lifecycle import FETCHING, PARSE_PHASE, Status
from limpet.scheduler.queue_reasons import still_closed, why_queued
from limpet.scheduler.retry import MAX_BLOCKS
from limpet.scheduler.wording import clock

AGAIN = "it enters the queue of its domain"


def reason(facts: Facts) -> Explanation:
    why = _reason(facts)
    task = facts.task
    if task.run_id is None:
        return why
    return replace(why, sentence=f"{why.sentence}; it is a list page of run {task.run_id}, start page {task.start_no}")


def _reason(facts: Facts) -> Explanation:
    match facts.task.status:
        case Status.PENDING:
            return _why_pending(facts)
        case status if status in FETCHING:
            return _why_out(facts)
        case status if status in PARSE_PHASE:
            return _why_unparsed(facts)
        case Status.PAUSED:
            return _why_paused(facts)
    return _why_ended(facts)


def _why_pending(facts: Facts) -> Explanation:
    task = facts.task
    if task.awaits_parent:
        otherwise = "it is cancelled" if task.on_parent_failure == "cancel" else "it becomes due all the same"
        return Explanation(
            Why.PARENT,
            f"it waits for task {task.parent_task_id} ({task.parent_url}), which is {task.parent_status}",
            Wakes.PARENT_ENDS,
            None,
            f"it becomes due when that one completes; should it not, {otherwise}",
        )
    if task.in_queue:
        return why_queued(facts)
    if task.in_calendar:
        return _why_later(facts)
    return _misplaced("it is due, but stands in no queue", "cancel it and restart it")


def _why_later(facts: Facts) -> Explanation:
    task = facts.task
    at, then = task.scheduled_at, AGAIN + still_closed(facts.pace, task.scheduled_at)
    error = f": {task.error_message}" if task.error_message else ""
    if task.note == "cooling_down":
        held = facts.pace.held_until if facts.pace.held_reason == "retry_after" else None
        own = " as the site asked" if held is not None and held >= at else ""
        sentence = (
            f"the site refused it (block {task.blocks} of {MAX_BLOCKS}){error}; it cools down{own} until {clock(at)}"
        )
        return Explanation(Why.COOLING_DOWN, sentence, Wakes.CLOCK, at, then)
    if task.note == "retry":
        sentence = f"retry {task.fetch_errors} of {task.max_retries} is at {clock(at)}, after an error{error}"
        return Explanation(Why.RETRY, sentence, Wakes.CLOCK, at, then)
    if task.note == "robots_unreachable":
        sentence = f"try {task.fetch_errors + 1} to read this robots.txt is at {clock(at)}{error}"
        return Explanation(Why.RETRY, sentence, Wakes.CLOCK, at, then)
    if task.event == "recrawled":
        sentence = f"its time to be crawled again was missed, and is made up for at {clock(at)}"
        return Explanation(Why.RECURRING, sentence, Wakes.CLOCK, at, then)
    return Explanation(Why.SCHEDULED, f"it is scheduled for {clock(at)}", Wakes.CLOCK, at, then)


def _why_out(facts: Facts) -> Explanation:
    task, until = facts.task, facts.task.permit_until
    if until is None:
        return _misplaced("it is with a fetcher, but has no permit", "the fetcher's report moves it on")
    lost = "without a report it comes back to the queue"
    if until < task.now:
        sentence = f"no fetcher reported on attempt {task.attempt}, and its permit expired at {clock(until)}"
        return Explanation(
            Why.PERMIT_EXPIRED, sentence, Wakes.CLOCK, until, "it comes back to the queue within a second"
        )
    if task.status is Status.CRAWLING:
        sentence = f"a fetcher has attempt {task.attempt} under way, and until {clock(until)} to report"
        return Explanation(Why.FETCHING, sentence, Wakes.PERMIT_BACK, until, f"its page is parsed; {lost}")
    if facts.fetchers == 0:
        sentence = "its order is out, but no fetcher has been heard of"
        return Explanation(
            Why.NO_FETCHER, sentence, Wakes.PERMIT_BACK, until, f"start a fetcher: it takes the order; {lost}"
        )
    sentence = f"the order for attempt {task.attempt} is out: a fetcher may start it from {clock(task.slot_at)} to {clock(facts.start_by)}"
    return Explanation(Why.ORDERED, sentence, Wakes.PERMIT_BACK, until, f"it is fetched; {lost}")


def _why_unparsed(facts: Facts) -> Explanation:
    task, until = facts.task, facts.task.parse_until
    if until is None:
        return _misplaced("its page is there, but no parser owes an answer for it", "restart its parsing")
    if task.status is Status.DOWNLOADED:
        error = f" (parse error {task.parse_errors} of {task.max_retries}: {task.error_message})"
        sentence = f"its page is stored, and a parser is asked for it{error if task.parse_errors and task.error_message else ''}"
        return Explanation(Why.PARSE_NEXT, sentence, Wakes.CLOCK, until, "the parser is asked within a second")
    if until < task.now:
        sentence = f"no parser reported on its page before {clock(until)}"
        return Explanation(Why.PARSE_EXPIRED, sentence, Wakes.CLOCK, until, "a parser is asked again within a second")
    lost = f"without a report by {clock(until)} a parser is asked again"
    if task.status is Status.PARSING:
        return Explanation(
            Why.PARSING, "a parser has its page in hand", Wakes.PARSER, until, f"its items are stored; {lost}"
        )
    return Explanation(
        Why.PARSE_ORDERED, "its page is stored and waits for a parser", Wakes.PARSER, until, f"it is parsed; {lost}"
    )


def _why_paused(facts: Facts) -> Explanation:
    task = facts.task
    who = f" by {task.actor}" if task.actor else ""
    since = f" at {clock(task.changed_at)}" if task.changed_at else ""
    kept = task.paused_from in PARSE_PHASE
    then = "resumed, its stored page is parsed" if kept else "resumed, it is due when it was due before, or at once"
    sentence = f"it was paused{who}{since}, when it was {task.paused_from}"
    return Explanation(Why.PAUSED, sentence, Wakes.PERSON, None, then)


def _why_ended(facts: Facts) -> Explanation:
    task = facts.task
    at = clock(task.completed_at)
    wakes, then = Wakes.PERSON, "nothing, unless somebody restarts it"
    if task.next_crawl_at is not None:
        wakes, then = Wakes.CLOCK, f"it is crawled again at {clock(task.next_crawl_at)}"
    if task.status is Status.COMPLETED:
        return Explanation(Why.COMPLETED, f"it was completed at {at}", wakes, task.next_crawl_at, then)
    error = f": {task.error_message}" if task.error_message else ""
    if task.status is Status.FAILED:
        return Explanation(Why.FAILED, f"it was given up at {at}{error}", wakes, task.next_crawl_at, then)
    if task.error_message == "robots_disallowed":
        return _why_disallowed(facts, at, wakes, then)
    if task.event == "parent_failed":
        return Explanation(Why.PARENT_FAILED, f"it was cancelled at {at}{error}", wakes, task.next_crawl_at, then)
    who = f" by {task.actor}" if task.actor else ""
    return Explanation(Why.CANCELLED, f"it was cancelled{who} at {at}{error}", wakes, task.next_crawl_at, then)


def _why_disallowed(facts: Facts, at: str, wakes: Wakes, then: str) -> Explanation:
    robots = facts.robots
    where = f"{robots.url}, read at {clock(robots.read_at)}," if robots is not None and robots.read_at else "robots.txt"
    if facts.word == "allowed":
        then = "today it is allowed: restart it"
    return Explanation(
        Why.ROBOTS_DISALLOWED, f"{where} forbids it: it was cancelled at {at}", wakes, facts.task.next_crawl_at, then
    )


def _misplaced(sentence: str, then: str) -> Explanation:
    """This should not be: no transaction leaves a task so."""
    return Explanation(Why.MISPLACED, sentence, Wakes.PERSON, None, then)
