"""What the scheduler's API answers, field by field. Durations are ISO 8601, times RFC 3339."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from limpet.scheduler.api.schemas import TimeOfDay
from limpet.scheduler.lifecycle import Status

Item = TypeVar("Item")
Cursor = TypeVar("Cursor")


class Listing(BaseModel, Generic[Item, Cursor]):
    """`next` is the `after` of the page that follows, null after the last one."""

    items: list[Item]
    next: Cursor | None


class Domain(BaseModel):
    name: str
    base_url: str
    parser_name: str
    crawl_delay_seconds: float
    max_concurrent_requests: int
    max_per_group: int
    is_active: bool
    user_agent: str
    proxy_policy: Literal["none", "preferred", "required"]
    min_body_bytes: int
    default_crawl_frequency: timedelta
    obey_robots: bool
    robots_delay_seconds: float
    maintenance_start: TimeOfDay | None
    maintenance_end: TimeOfDay | None
    maintenance_zone: str
    breaker_failures: int
    breaker_rate: float
    breaker_window_seconds: float
    breaker_cooldown_seconds: float
    breaker_successes: int
    http2: bool
    headers: dict[str, str]
    validation: Literal["enforce", "shadow"]
    ignored_signatures: list[str]
    breaker_state: Literal["closed", "open", "half_open"]
    breaker_opened_at: datetime | None
    breaker_reason: str | None
    limit_now: int
    in_flight: int
    created_at: datetime
    updated_at: datetime


class Task(BaseModel):
    task_id: int
    url: str
    domain: str
    batch: str | None
    priority: int
    scheduled_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    attempt: int
    fetch_errors: int
    blocks: int
    parse_errors: int
    max_retries: int
    error_message: str | None
    crawl_frequency: timedelta | None
    is_recurring: bool
    recrawl_count: int
    http_status_code: int | None
    response_time_ms: int | None
    proxy_id: int | None
    group_key: str | None
    parser_name: str | None
    created_at: datetime
    updated_at: datetime
    created_by: str
    kind: Literal["page", "robots"]
    note: str | None
    next_crawl_at: datetime | None
    paused_from: Status | None
    parent_task_id: int | None
    on_parent_failure: Literal["cancel", "release"]
    awaits_parent: bool
    webhook_url: str | None
    status: Status
    retry_count: int
    page_key: str | None
    trace_id: str


class TaskDone(Task):
    """The task after what was asked, and what was done."""

    message: str


class Attempt(BaseModel):
    attempt: int
    phase: Literal["fetch", "parse"]
    started_at: datetime | None
    ended_at: datetime
    outcome: str
    http_status: int | None
    response_ms: int | None
    proxy_id: int | None
    page_key: str | None
    error: str | None


class Change(BaseModel):
    at: datetime
    source: Status | None
    target: Status
    event: str
    actor: str
    reason: str | None


class Refused(BaseModel):
    index: int
    url: str
    field: str
    message: str


class BulkTaken(BaseModel):
    created: int
    known: int
    refused: list[Refused]


class Restarted(BaseModel):
    restarted: int
    task_ids: list[int]


class Batch(BaseModel):
    batch_id: int
    name: str
    follow: bool
    recrawl: bool
    max_pages: int | None
    webhook_url: str | None
    pages: int
    open_tasks: int
    created_at: datetime
    ended_at: datetime | None


class BatchProgress(Batch):
    tasks: dict[Status, int]


class Changed(BaseModel):
    changed: int
