"""What the broker's API answers, field by field. Money is decimal text, durations are ISO 8601, times RFC 3339."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from limpet.proxy_broker.alerts import Condition
from limpet.proxy_broker.api.schemas import Protocol
from limpet.proxy_broker.budget import Scope
from limpet.proxy_broker.budget import State as BudgetState
from limpet.proxy_broker.policy import Kind, StickyBy, Strategy, Tier
from limpet.proxy_broker.sizing import Advice
from limpet.proxy_broker.store.pairs import State
from limpet.proxy_broker.store.usage_hours import By

Item = TypeVar("Item")
Cursor = TypeVar("Cursor")


class Listing(BaseModel, Generic[Item, Cursor]):
    """`next` is the `after` of the page that follows, null after the last one."""

    items: list[Item]
    next: Cursor | None


class Proxy(BaseModel):
    """A proxy as people may see it: whether there is a password, never which."""

    proxy_id: int
    protocol: Protocol
    host: str
    port: int
    username: str
    has_password: bool
    kind: Kind
    country_code: str
    city: str
    provider: str
    monthly_cost: Decimal | None
    cost_per_gb: Decimal | None
    max_requests_per_hour: int | None
    max_concurrent_leases: int
    operator_disabled: bool
    active: bool
    cooling_until: datetime | None
    relapses: int
    open_leases: int
    consecutive_failures: int
    success_count: int
    failure_count: int
    block_count: int
    success_rate: float | None
    avg_response_ms: float | None
    last_used_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Refused(BaseModel):
    """A line that was not taken. What it held is not repeated."""

    line: int
    field: str
    message: str


class Imported(BaseModel):
    """With a dry run: what would be."""

    dry_run: bool
    added: int
    known: int
    assigned: int
    refused: int
    # The first of them.
    refusals: list[Refused]


class SealedUnder(BaseModel):
    key_id: str
    passwords: int
    newest: bool
    # Whether the broker has the key; without it these passwords cannot be read any more.
    present: bool


class Rotated(BaseModel):
    resealed: int
    unreadable: list[int]
    next: int | None
    keys: list[SealedUnder]


class Pair(BaseModel):
    """A proxy of a domain's pool, or one that was used for the domain."""

    domain: str
    proxy_id: int
    assigned: bool
    priority: int
    operator_disabled: bool
    state: State
    cooling_until: datetime | None
    blocked_until: datetime | None
    consecutive_failures: int
    success_count: int
    failure_count: int
    block_count: int
    success_rate: float | None
    avg_response_ms: float | None
    last_used_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Assigned(BaseModel):
    assigned: int
    # Ids of proxies that there are not.
    unknown: list[int]


class Blocked(BaseModel):
    """A proxy that the site refused, until its time is over."""

    proxy_id: int
    block_count: int
    last_blocked_at: datetime | None
    last_error: str
    blocked_until: datetime


class Sizing(BaseModel):
    domain: str
    rate_per_hour: Decimal
    # Null: no proxy here has an hourly limit.
    max_requests_per_proxy: Decimal | None
    needed: int
    recommended: int
    have: int
    members: int
    advice: Advice


class Policy(BaseModel):
    domain: str
    # False: nobody has decided anything, these are the defaults.
    stored: bool
    strategy: Strategy
    sticky_by: StickyBy
    sticky_for: timedelta
    country_code: str
    providers: list[str]
    kinds: list[Kind]
    tiers: list[Tier]
    pair_failures: int | None
    pair_cooldown: timedelta | None
    block_cooldown: timedelta | None
    wave_proxies: int | None


class Cost(BaseModel):
    """`cost` is of hours in which it was used, `idle_cost` of those in which nobody did."""

    name: str
    good_pages: int
    failures: int
    blocks: int
    bytes: int
    cost: Decimal
    idle_cost: Decimal
    cost_per_thousand: Decimal | None
    cost_per_thousand_with_idle: Decimal | None


class Costs(BaseModel):
    by: By
    since: datetime
    until: datetime
    items: list[Cost]
    next: str | None


class Budget(BaseModel):
    scope: Scope
    name: str
    monthly_amount: Decimal
    alert_share: float
    month: date | None
    spent: Decimal
    state: BudgetState
    created_at: datetime
    updated_at: datetime


class Alert(BaseModel):
    condition: Condition
    scope: Literal["domain", "provider"]
    name: str
    message: str
