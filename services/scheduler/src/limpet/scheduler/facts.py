"""What is known of a task when somebody asks why it stands where it stands, and the form of the answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from limpet.scheduler.lifecycle import Status
from limpet.scheduler.politeness import Pace

# No more than so many tasks of a queue are counted.
MOST_AHEAD = 10_000


class Why(StrEnum):
    """Everything that a task can wait for, in the order in which it may meet them."""

    PARENT = "parent"
    SCHEDULED = "scheduled"
    RETRY = "retry"
    COOLING_DOWN = "cooling_down"
    RECURRING = "recurring"
    INACTIVE = "inactive"
    MAINTENANCE_WINDOW = "maintenance_window"
    BREAKER_OPEN = "breaker_open"
    RETRY_AFTER = "retry_after"
    NO_PROXY = "no_proxy"
    HELD = "held"
    ROBOTS_UNREAD = "robots_unread"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    ROBOTS_FORBIDS = "robots_forbids"
    BREAKER_HALF_OPEN = "breaker_half_open"
    DOMAIN_FULL = "domain_full"
    GROUP_FULL = "group_full"
    PLATFORM_FULL = "platform_full"
    NO_FETCHER = "no_fetcher"
    BEHIND_OTHERS = "behind_others"
    NEXT_SLOT = "next_slot"
    NEXT = "next"
    ORDERED = "ordered"
    FETCHING = "fetching"
    PERMIT_EXPIRED = "permit_expired"
    PARSE_NEXT = "parse_next"
    PARSE_ORDERED = "parse_ordered"
    PARSING = "parsing"
    PARSE_EXPIRED = "parse_expired"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ROBOTS_DISALLOWED = "robots_disallowed"
    PARENT_FAILED = "parent_failed"
    MISPLACED = "misplaced"


class Wakes(StrEnum):
    """What moves a task on."""

    CLOCK = "clock"
    PERMIT_BACK = "permit_back"
    ROBOTS_READ = "robots_read"
    PARENT_ENDS = "parent_ends"
    PARSER = "parser"
    PERSON = "person"


@dataclass(frozen=True)
class Explanation:
    """`wakes_at` is None where no clock decides; where something else may come first, it is the latest time."""

    gate: Why
    sentence: str
    wakes: Wakes
    wakes_at: datetime | None
    then: str


@dataclass(frozen=True)
class TaskFacts:
    task_id: int
    url: str
    # Where the site moved it, or its own address.
    goes_to: str
    domain: str
    kind: str
    status: Status
    attempt: int
    priority: int
    scheduled_at: datetime
    group_key: str | None
    fetch_errors: int
    blocks: int
    parse_errors: int
    max_retries: int
    error_message: str | None
    note: str | None
    next_crawl_at: datetime | None
    completed_at: datetime | None
    updated_at: datetime
    paused_from: str | None
    awaits_parent: bool
    on_parent_failure: str
    parent_task_id: int | None
    parent_url: str | None
    parent_status: str | None
    in_queue: bool
    in_calendar: bool
    slot_at: datetime | None
    permit_until: datetime | None
    parse_until: datetime | None
    group_in_flight: int
    group_limit: int
    # The change that led to this status; all None when it is too old to be kept.
    changed_at: datetime | None
    event: str | None
    actor: str | None
    reason: str | None
    now: datetime
    # The run that a list page belongs to, and which of its start pages.
    run_id: UUID | None = None
    start_no: int | None = None
    run_state: str | None = None


@dataclass(frozen=True)
class RobotsFacts:
    """One origin's robots.txt. `tries` counts what has failed since it was last read."""

    url: str
    state: str
    read_at: datetime | None
    note: str | None
    asked_since: datetime | None = None
    next_try_at: datetime | None = None
    tries: int = 0


@dataclass(frozen=True)
class Facts:
    task: TaskFacts
    pace: Pace
    # What robots.txt says of it, its own origin's and the one that all pages of the domain wait for.
    word: str
    robots: RobotsFacts | None
    missing: RobotsFacts | None
    # How many of its domain come before it, at most one more than are counted.
    ahead: int
    lead: float
    patience: float
    permits_out: int
    # What the fetchers hold together and how many there are; None where nobody listens for them.
    window: int | None
    fetchers: int | None

    @property
    def start_by(self) -> datetime | None:
        """Until when a fetcher may begin with the order that is out."""
        if self.task.slot_at is None:
            return None
        return self.task.slot_at + self.pace.patience(self.patience)
