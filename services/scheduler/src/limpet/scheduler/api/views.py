"""What the scheduler's API answers: rows as JSON."""

from __future__ import annotations

import json
from typing import Any

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.pg import Record
from limpet.scheduler.lifecycle import PARSE_PHASE, TERMINAL

DOMAIN_FIELDS = (
    "name", "base_url", "parser_name", "crawl_delay_seconds", "max_concurrent_requests", "max_per_group", "is_active",
    "user_agent", "proxy_policy", "min_body_bytes", "default_crawl_frequency", "obey_robots", "robots_delay_seconds",
    "maintenance_start", "maintenance_end", "maintenance_zone", "breaker_failures", "breaker_rate", "breaker_window_seconds",
    "breaker_cooldown_seconds", "breaker_successes", "http2", "validation", "ignored_signatures", "breaker_state", "breaker_opened_at", "breaker_reason", "limit_now",
    "in_flight", "created_at", "updated_at",
)  # fmt: skip
TASK_FIELDS = (
    "task_id", "url", "domain", "batch", "priority", "scheduled_at", "started_at", "completed_at", "attempt", "fetch_errors",
    "blocks", "parse_errors", "max_retries", "error_message", "crawl_frequency", "is_recurring", "recrawl_count",
    "http_status_code", "response_time_ms", "proxy_id", "group_key", "parser_name", "created_at", "updated_at", "created_by",
    "kind", "note", "next_crawl_at", "paused_from", "parent_task_id", "on_parent_failure", "awaits_parent", "webhook_url",
)  # fmt: skip
BATCH_FIELDS = (
    "batch_id", "name", "follow", "recrawl", "max_pages", "webhook_url", "pages", "open_tasks", "created_at", "ended_at",
)  # fmt: skip


def domain_view(row: Record) -> dict[str, Any]:
    return {**{name: row[name] for name in DOMAIN_FIELDS}, "headers": json.loads(row["headers"])}


def task_view(row: Record) -> dict[str, Any]:
    page = PageFetched.FromString(row["page_fact"]).body_key if row["page_fact"] else None
    return {
        **{name: row[name] for name in TASK_FIELDS},
        "status": row["status"],
        "retry_count": retry_count(row),
        "page_key": page,
        "trace_id": row["trace_id"].hex,
    }


def retry_count(row: Record) -> int:
    """Of the phase that the task is in; of the last one that had any, when it has ended."""
    parsing = {row["status"], row["paused_from"]} & PARSE_PHASE or (row["status"] in TERMINAL and row["parse_errors"])
    return int(row["parse_errors"] if parsing else row["fetch_errors"])


def batch_view(row: Record, tasks: dict[str, int] | None = None) -> dict[str, Any]:
    """With `tasks`, its progress too."""
    view = {name: row[name] for name in BATCH_FIELDS}
    return view if tasks is None else {**view, "tasks": tasks}
