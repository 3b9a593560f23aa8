"""The form of what was sent and got lost or retried: webhook deliveries and dead letters over REST."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel


class Secret(BaseModel):
    endpoint: str
    secret: str


class Delivery(BaseModel):
    delivery_id: UUID
    url: str
    endpoint: str
    event: str
    state: Literal["pending", "delivered", "dead"]
    tries: int
    next_try_at: datetime
    last_status: int | None
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None


class Letter(BaseModel):
    id: int
    subject: str
    consumer: str
    error: str
    buried_at: datetime
    size_bytes: int
    records: int | None


class Decoded(BaseModel):
    message: dict[str, Any]


class Undecoded(BaseModel):
    hex: str


class OpenedLetter(Letter):
    headers: dict[str, str]
    kind: str | None
    content: list[Decoded | Undecoded]


class Replayed(BaseModel):
    id: int
    subject: str
