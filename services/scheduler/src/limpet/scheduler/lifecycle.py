"""The life of a task: ten statuses and the one table of changes between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    QUEUED = "queued"
    CRAWLING = "crawling"
    DOWNLOADED = "downloaded"
    QUEUED_PARSE = "queued_parse"
    PARSING = "parsing"
    COMPLETED = "completed"
    FAILED = "failed"
    PAUSED = "paused"
    CANCELLED = "cancelled"


FETCHING = frozenset({Status.QUEUED, Status.CRAWLING})
PARSE_PHASE = frozenset({Status.DOWNLOADED, Status.QUEUED_PARSE, Status.PARSING})
TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
OPEN = frozenset(Status) - TERMINAL - {Status.PAUSED}


@dataclass(frozen=True)
class Rule:
    """What may happen, from where, to where, and in whose words."""

    sources: frozenset[Status]
    targets: frozenset[Status]
    meaning: str


def _rule(sources: frozenset[Status], targets: set[Status], meaning: str) -> Rule:
    return Rule(sources, frozenset(targets), meaning)


TRANSITIONS: dict[str, Rule] = {
    "dispatched": _rule(frozenset({Status.PENDING}), {Status.QUEUED}, "a permit was granted and the order sent"),
    "fetch_started": _rule(frozenset({Status.QUEUED}), {Status.CRAWLING}, "a fetcher has the request under way"),
    "page_fetched": _rule(
        FETCHING | {Status.PENDING},
        {Status.QUEUED_PARSE},
        "a good page of the current crawl was stored; the first one wins",
    ),
    "page_kept": _rule(
        frozenset({Status.PAUSED}), {Status.PAUSED}, "a page came while the task was paused: it goes on from there"
    ),
    "fetch_failed": _rule(FETCHING, {Status.PENDING, Status.FAILED}, "no page: tried again later, or given up"),
    "blocked": _rule(FETCHING, {Status.PENDING, Status.FAILED}, "the site refused: cooled down, or given up"),
    "returned": _rule(FETCHING, {Status.PENDING, Status.FAILED}, "the order came back unused, or the page has moved"),
    "unchanged": _rule(FETCHING, {Status.COMPLETED}, "the site says that its page has not changed since it was parsed"),
    "page_gone": _rule(
        FETCHING, {Status.PENDING}, "the page has not changed, but is not kept any more: it is fetched again"
    ),
    "fetch_lost": _rule(FETCHING, {Status.PENDING, Status.FAILED}, "nobody reported before the permit expired"),
    "parse_started": _rule(frozenset({Status.QUEUED_PARSE}), {Status.PARSING}, "a parser has the page in hand"),
    "parsed": _rule(FETCHING | PARSE_PHASE | {Status.PENDING}, {Status.COMPLETED}, "items and links are stored"),
    "parse_failed": _rule(
        FETCHING | PARSE_PHASE | {Status.PENDING},
        {Status.DOWNLOADED, Status.FAILED},
        "no items: tried again, or given up",
    ),
    "parse_asked": _rule(
        PARSE_PHASE, {Status.QUEUED_PARSE, Status.FAILED}, "the parser was asked (again), or given up"
    ),
    "recrawled": _rule(TERMINAL, {Status.PENDING}, "a new crawl of a known URL: its time has come, or a batch asked"),
    "restarted": _rule(TERMINAL, {Status.PENDING}, "a person asked for another crawl"),
    "reparsed": _rule(
        TERMINAL | {Status.DOWNLOADED}, {Status.DOWNLOADED}, "a person asked for the stored page to be parsed again"
    ),
    "paused": _rule(OPEN, {Status.PAUSED}, "a person stopped it; where it stood is remembered"),
    "resumed": _rule(
        frozenset({Status.PAUSED}),
        {Status.PENDING, Status.DOWNLOADED},
        "a person lets it go on from where it stood: a page that is there is not fetched again",
    ),
    "cancelled": _rule(OPEN | {Status.PAUSED}, {Status.CANCELLED}, "a person gave it up"),
    "disallowed": _rule(frozenset({Status.PENDING}), {Status.CANCELLED}, "robots.txt does not allow it"),
    "parent_failed": _rule(
        frozenset({Status.PENDING, Status.PAUSED}),
        {Status.CANCELLED},
        "the task that it waited for did not complete",
    ),
    "robots_read": _rule(FETCHING, {Status.COMPLETED}, "the robots.txt of an origin was read, or there is none"),
}


def allowed(event: str, source: Status, target: Status) -> bool:
    rule = TRANSITIONS[event]
    return source in rule.sources and target in rule.targets
