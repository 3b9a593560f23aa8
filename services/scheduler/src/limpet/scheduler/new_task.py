"""A task that is to be added."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID


@dataclass(frozen=True)
class NewTask:
    domain_id: int
    url: str
    digest: bytes
    priority: int = 5
    scheduled_at: datetime | None = None
    max_retries: int = 3
    group_key: str | None = None
    parser_name: str | None = None
    is_recurring: bool = True
    crawl_frequency: timedelta | None = None
    # None means a trace of its own.
    trace_id: UUID | None = None
    kind: str = "page"
    parent_task_id: int | None = None
    on_parent_failure: str = "cancel"
    awaits_parent: bool = False
    webhook_url: str | None = None
    # Links from where the batch began.
    depth: int = 0
