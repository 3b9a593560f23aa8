"""What a webhook says: an event and the task, batch or run that it is about. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any, Final
from uuid import UUID

from pydantic import TypeAdapter

from limpet.scheduler.signature import endpoint_of
from limpet.scheduler.store.webhooks import Delivery

KINDS: Final = ("task", "batch", "run")
# Times and durations are spelt as the REST API spells them.
_JSON: Final = TypeAdapter(dict[str, Any])
_TASK: Final = (
    "task_id", "url", "status", "attempt", "http_status_code", "error_message", "completed_at", "batch",
)  # fmt: skip
_RUN: Final = (
    "run_id", "site", "state", "gate", "reason", "urls", "new_tasks", "batch", "created_at", "ended_at",
)  # fmt: skip
_BATCH: Final = ("batch_id", "name", "pages", "created_at", "ended_at")


def task_subject(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _TASK}


def batch_subject(row: Mapping[str, Any], tasks: Mapping[str, int]) -> dict[str, Any]:
    """With its tasks by status."""
    return {**{name: row[name] for name in _BATCH}, "tasks": dict(tasks)}


def run_subject(row: Mapping[str, Any]) -> dict[str, Any]:
    """With its start pages by state."""
    pages = {state: row[state] for state in ("pending", "paginating", "completed", "failed")}
    return {**{name: row[name] for name in _RUN}, "start_pages": pages}


def webhook_body(event: str, subject: Mapping[str, Any], *, delivery_id: UUID, occurred_at: datetime) -> str:
    """`task.completed` is about a task, which is found under `task`."""
    kind = event.partition(".")[0]
    if kind not in KINDS:
        raise ValueError(f"{event} is about no {', '.join(KINDS)}")
    said = {"id": delivery_id, "event": event, "occurred_at": occurred_at, kind: dict(subject)}
    return _JSON.dump_json(said).decode()


def make_delivery(url: str, event: str, subject: Mapping[str, Any], *, occurred_at: datetime, rng: Random) -> Delivery:
    """The row that `add_deliveries` takes."""
    delivery_id = ordered_id(occurred_at, rng=rng)
    body = webhook_body(event, subject, delivery_id=delivery_id, occurred_at=occurred_at)
    return Delivery(delivery_id=delivery_id, url=url, endpoint=endpoint_of(url), event=event, body=body)


def ordered_id(at: datetime, *, rng: Random) -> UUID:
    """UUID version 7: milliseconds first, chance after them."""
    milliseconds = int(at.timestamp() * 1000) & ((1 << 48) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | rng.getrandbits(12) << 64 | 0b10 << 62 | rng.getrandbits(62))
