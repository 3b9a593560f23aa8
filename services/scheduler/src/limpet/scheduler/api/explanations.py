"""The form of an explanation over REST. What does not apply is null."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from limpet.scheduler.api.schemas import TimeOfDay
from limpet.scheduler.facts import Wakes, Why
from limpet.scheduler.lifecycle import Status


class Count(BaseModel):
    count: int
    most: int


class LastChange(BaseModel):
    at: datetime
    event: str | None
    actor: str | None
    reason: str | None


class Queue(BaseModel):
    ahead: int
    more: bool
    estimated_at: datetime | None


class DomainNow(BaseModel):
    name: str
    is_active: bool
    in_flight: int
    limit_now: int
    max_concurrent_requests: int
    delay_seconds: float
    next_slot_at: datetime | None
    held_until: datetime | None
    held_reason: str | None


class Breaker(BaseModel):
    state: str
    reopens_at: datetime | None
    reason: str | None


class Window(BaseModel):
    start: TimeOfDay
    end: TimeOfDay
    zone: str


class Group(BaseModel):
    key: str
    in_flight: int
    limit_now: int
    max_per_group: int


class Robots(BaseModel):
    """All but the first two are absent where robots.txt is not obeyed or not known."""

    obeyed: bool
    word: str
    url: str = ""
    state: str = ""
    read_at: datetime | None = None
    note: str | None = None
    tries: int = 0
    next_try_at: datetime | None = None


class Parent(BaseModel):
    task_id: int
    url: str | None
    status: Status | None


class RunPlace(BaseModel):
    run_id: UUID
    start_no: int
    state: str


class PermitOut(BaseModel):
    slot_at: datetime | None
    start_by: datetime | None
    lease_until: datetime


class Details(BaseModel):
    now: datetime
    attempt: int
    priority: int
    scheduled_at: datetime
    retries: Count
    blocks: Count
    parse_errors: Count
    error: str | None
    last_change: LastChange | None
    paused_from: Status | None
    next_crawl_at: datetime | None
    queue: Queue | None
    domain: DomainNow
    breaker: Breaker
    window: Window | None
    group: Group | None
    robots: Robots
    parent: Parent | None
    run: RunPlace | None
    permit: PermitOut | None
    parse_lease_until: datetime | None
    permits_out: int
    window_of_orders: int | None
    fetchers: int | None


class Explained(BaseModel):
    task_id: int
    url: str
    status: Status
    gate: Why
    sentence: str
    since: datetime
    wakes: Wakes
    wakes_at: datetime | None
    next: str
    details: Details
