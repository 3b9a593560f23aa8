"""How many requests a domain may start now, and when each of them: delays, slots, room. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

# A share of the delay: the pace that is lost to exactness. Bounded, so that a long delay is not stretched for nothing.
_SHARE = 0.12
_LEAST = 0.010
_MOST = 0.150
# A robots.txt may slow us down this far; what it asks beyond that an operator has to ask.
ROBOTS_DELAY_CAP = 60.0
# Tasks of one domain at its turn, while others wait for theirs.
TURN = 16


@dataclass(slots=True)
class Pace:
    """The row of a domain that politeness is decided by, always under its lock. It changes as decisions are made."""

    domain_id: int
    name: str
    is_active: bool
    crawl_delay_seconds: float
    robots_delay_seconds: float
    max_concurrent_requests: int
    max_per_group: int
    obey_robots: bool
    robots_unread: int
    robots_version: int
    user_agent: str
    maintenance_start: time | None
    maintenance_end: time | None
    maintenance_zone: str
    breaker_failures: int
    breaker_rate: float
    breaker_window_seconds: float
    breaker_cooldown_seconds: float
    breaker_successes: int
    # From here on: what has been decided so far.
    in_flight: int
    next_slot_at: datetime | None
    held_until: datetime | None
    held_reason: str | None
    ready_at: datetime | None
    breaker_state: str
    breaker_opened_at: datetime | None
    breaker_in_a_row: int
    breaker_window_at: datetime | None
    breaker_good: int
    breaker_bad: int
    breaker_proxies: str
    breaker_reason: str | None
    bearable: float
    shrunk_at: datetime | None
    limit_now: int
    # Where it stood in the queue of domains when it was read, and where its row is stored: nobody moves it while it is locked.
    stood: datetime | None = None
    row: tuple[int, int] | None = None
    # Read only where orders are made: its row in the queue of domains, whether it has groups, what its orders say.
    queue_row: tuple[int, int] | None = None
    grouped: bool = True
    parser_name: str = ""
    proxy_policy: str = ""
    min_body_bytes: int = 0
    http2: bool = False
    headers: str = "{}"
    validation: str = "enforce"
    ignored_signatures: Sequence[str] = ()

    @property
    def delay(self) -> float:
        """The larger of what the operator and what robots.txt ask for."""
        return delay(self.crawl_delay_seconds, self.robots_delay_seconds if self.obey_robots else 0.0)

    @property
    def tolerance(self) -> float:
        return slot_tolerance(self.delay)

    @property
    def spacing(self) -> timedelta:
        return timedelta(seconds=self.delay + self.tolerance)

    def patience(self, without_delay: float) -> timedelta:
        """How long after its slot an order may still be started; without a delay nobody is hurt by a later start."""
        return timedelta(seconds=self.tolerance if self.delay > 0 else without_delay)

    @property
    def place(self) -> datetime | None:
        """Where it belongs in the queue of domains: nowhere while it is switched off or full."""
        return self.ready_at if self.is_active and self.in_flight < self.limit_now else None

    def hold(self, until: datetime, reason: str) -> None:
        """Nothing starts before; a longer hold that is there already stays."""
        if self.held_until is None or until > self.held_until:
            self.held_until, self.held_reason = until, reason

    def wake(self, at: datetime) -> None:
        """Something may be served at this time."""
        if self.ready_at is None or at < self.ready_at:
            self.ready_at = at

    def first_slot(self, now: datetime) -> datetime:
        return max(moment for moment in (self.next_slot_at, self.held_until, now) if moment is not None)


def delay(own: float, robots: float) -> float:
    """robots.txt can only slow us down."""
    return max(own, min(robots, ROBOTS_DELAY_CAP))


def spacing(own: float, robots: float) -> timedelta:
    """Between two slots of a domain with this delay of its own and of its robots.txt."""
    longer = delay(own, robots)
    return timedelta(seconds=longer + slot_tolerance(longer))


def slot_tolerance(crawl_delay_seconds: float) -> float:
    """How long after its slot a request may start. Slots are delay + tolerance apart, so no two starts are closer than the delay."""
    if crawl_delay_seconds <= 0:
        return 0.0
    return min(_MOST, max(_LEAST, _SHARE * crawl_delay_seconds))


def room(pace: Pace, *, now: datetime, lead: timedelta, most: int) -> int:
    """How many requests may be granted now: those whose slots lie within the lead, and fit below the limit."""
    first = pace.first_slot(now)
    if first > now + lead:
        return 0
    free = min(most, pace.limit_now - pace.in_flight)
    if pace.breaker_state == "half_open":
        # One probe at a time, and only when all that was out before has come back.
        free = 1 if pace.in_flight == 0 else 0
    if pace.delay > 0:
        free = min(free, 1 + (now + lead - first) // pace.spacing)
    return max(0, free)


def share(rooms: Mapping[int, int], most: int) -> dict[int, int]:
    """How much of its room each domain may use, so that all of them together use no more than about `most`."""
    left, level = most, 1
    for number, size in enumerate(sorted(rooms.values())):
        level = max(1, -(-left // (len(rooms) - number)))
        if size >= level:
            break
        left -= size
    return {domain_id: min(size, level) for domain_id, size in rooms.items()}


def take_slots(pace: Pace, count: int, *, now: datetime) -> list[datetime]:
    """The next slots, each a spacing after the one before; they and their requests are counted."""
    first = pace.first_slot(now)
    slots = [first + number * pace.spacing for number in range(count)]
    if slots:
        pace.next_slot_at = slots[-1] + pace.spacing
        pace.in_flight += count
    return slots
