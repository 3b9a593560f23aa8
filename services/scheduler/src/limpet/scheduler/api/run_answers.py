"""What is answered about runs and their schedules, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from limpet.kit.pg import Record
from limpet.scheduler.runs.verdict import Gate

STATES = ("pending", "paginating", "completed", "failed")


class StartPageCounts(BaseModel):
    pending: int
    paginating: int
    completed: int
    failed: int


class Run(BaseModel):
    """`collected` counts a URL once for each start page that has it, `urls` once: that is known when the run has ended."""

    run_id: UUID
    site: str
    state: Literal["collecting", "committed", "aborted"]
    gate: Gate | None
    reason: str | None
    start_pages: StartPageCounts
    list_pages: int
    collected: int
    urls: int | None
    new_tasks: int | None
    batch: str | None
    schedule: str | None
    on_failed_start_page: Literal["abort", "skip", "quorum"]
    quorum: float
    allow_empty: bool
    least_share: float | None
    item_pattern: str | None
    parser_name: str | None
    list_parser_name: str | None
    priority: int
    max_retries: int
    max_list_pages: int
    recrawl: bool
    webhook_url: str | None
    created_by: str
    created_at: datetime
    ended_at: datetime | None
    committed: bool


class Failure(BaseModel):
    time: datetime
    proxy_id: int | None
    error: str


class StartPage(BaseModel):
    start_no: int
    start_page_url: str
    state: Literal["pending", "paginating", "completed", "failed"]
    completed: bool
    collected: int
    list_pages: int
    open_pages: int
    failure_count: int
    failure_history: list[Failure]
    # What the rules of pagination know of its list.
    paging: dict[str, Any]
    reason: str | None
    started_at: datetime | None
    ended_at: datetime | None


class Collected(BaseModel):
    url: str
    start_no: int


class Schedule(BaseModel):
    name: str
    site: str
    cron: str
    zone: str
    is_active: bool
    run: dict[str, Any]
    next_run_at: datetime
    last_run_at: datetime | None
    last_run_id: UUID | None
    created_at: datetime
    updated_at: datetime


def run_view(row: Record) -> dict[str, Any]:
    view = {name: row[name] for name in Run.model_fields if name not in ("start_pages", "committed")}
    return {
        **view,
        "start_pages": {state: row[state] for state in STATES},
        "committed": row["state"] == "committed",
    }


def start_page_view(row: Record) -> dict[str, Any]:
    same = (
        "start_no", "state", "completed", "collected", "open_pages", "failure_count", "reason", "started_at", "ended_at",
    )  # fmt: skip
    failures: list[Mapping[str, Any]] = json.loads(row["failures"])
    return {
        **{name: row[name] for name in same},
        "start_page_url": row["url"],
        "list_pages": row["pages"],
        "failure_history": failures,
        "paging": json.loads(row["paging"]),
    }


def schedule_view(row: Record) -> dict[str, Any]:
    view = {name: row[name] for name in Schedule.model_fields if name != "run"}
    return {**view, "run": json.loads(row["wish"])}
