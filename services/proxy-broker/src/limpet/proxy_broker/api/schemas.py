"""What people send to the broker's API. Unknown fields are refused by name, and nothing sent is ever repeated."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from ipaddress import IPv6Address
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Path, Query
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from limpet.proxy_broker.policy import TIERS, Kind, StickyBy, Strategy, Tier

BIGGEST: Final = 2**63 - 1
MOST_AT_ONCE: Final = 10_000
# A year would be written with years and days, which ISO 8601 readers refuse.
LONGEST: Final = timedelta(days=364)
_NUMBER: Final = re.compile(r"\s*[+-]?[\d_.]+([eE][+-]?\d+)?\s*")
Protocol = Literal["http", "https", "socks5"]


def _whole(value: Any) -> Any:
    """A number is a number: neither `true` nor "5" counts as one."""
    if isinstance(value, bool | str):
        raise ValueError("must be a number")
    return value


def _duration(value: Any) -> Any:
    """Seconds as a number, or ISO 8601; neither `true` nor "5" is a duration."""
    if isinstance(value, bool) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("must be a number of seconds or ISO 8601")
    return value


def _host(value: str) -> str:
    """Whatever has a colon is an IPv6 address, written without brackets."""
    if ":" in value:
        try:
            return IPv6Address(value).compressed
        except ValueError:
            raise ValueError("is neither a name nor an address") from None
    return value


def _moment(value: datetime) -> datetime:
    """Times that a database can reckon with."""
    if not 2000 <= value.year < 2200:
        raise ValueError("must lie between the years 2000 and 2200")
    return value.astimezone(UTC)


def _distinct(values: list[Any]) -> list[Any]:
    if len(set(values)) < len(values):
        raise ValueError("must not repeat a value")
    return values


def _climbing(tiers: list[Tier]) -> list[Tier]:
    if tiers != sorted(tiers, key=TIERS.index):
        raise ValueError("must go from the cheapest to the dearest: direct, datacenter, residential, mobile")
    return tiers


# No control characters: these go into headers. No slash where a name is also a path.
Text = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")]
Name = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f\x7f/]*$")]
Host = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._:-]+$", to_lower=True),
    AfterValidator(_host),
]
Country = Annotated[str, StringConstraints(pattern=r"^([A-Za-z]{2})?$", to_upper=True)]
Whole = Annotated[int, BeforeValidator(_whole)]
ProxyId = Annotated[Whole, Field(ge=1, le=BIGGEST)]
Priority = Annotated[Whole, Field(ge=1, le=10)]
Port = Annotated[Whole, Field(ge=1, le=65535)]
PerHour = Annotated[Whole, Field(ge=1, le=10_000_000)]
Concurrent = Annotated[Whole, Field(ge=1, le=100_000)]
Money = Annotated[Decimal, Field(ge=0, max_digits=10, decimal_places=2)]
PerGb = Annotated[Decimal, Field(ge=0, max_digits=10, decimal_places=4)]
Password = Annotated[SecretStr, Field(max_length=1024)]
Moment = Annotated[AwareDatetime, AfterValidator(_moment)]
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    Field(ge=timedelta(0), le=LONGEST),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": LONGEST.total_seconds()},
                {"type": "string", "format": "duration"},
            ]
        }
    ),
]

# Where in a request's address.
Id = Annotated[int, Path(ge=1, le=BIGGEST)]
Domain = Annotated[str, Path(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f\s/]+$")]
Limit = Annotated[int, Query(ge=1, le=1000)]
After = Annotated[int, Query(ge=0, le=BIGGEST)]


class Body(BaseModel):
    """A misspelt field is an error, not a default. Errors never repeat what was sent."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class AddProxy(Body):
    """Identity is protocol, host, port and username."""

    protocol: Protocol = "http"
    host: Host
    port: Port
    username: Text = ""
    password: Password | None = None
    kind: Kind = "datacenter"
    country_code: Country = ""
    city: Text = ""
    provider: Name = ""
    monthly_cost: Money | None = None
    cost_per_gb: PerGb | None = None
    # Null means no limit.
    max_requests_per_hour: PerHour | None = 1000
    max_concurrent_leases: Concurrent = 10


class ChangeProxy(Body):
    """Only what is named changes. Null takes away a password, a price or the hourly limit."""

    protocol: Protocol = "http"
    host: Host = ""
    port: Port = 0
    username: Text = ""
    password: Password | None = None
    kind: Kind = "datacenter"
    country_code: Country = ""
    city: Text = ""
    provider: Name = ""
    monthly_cost: Money | None = None
    cost_per_gb: PerGb | None = None
    max_requests_per_hour: PerHour | None = None
    max_concurrent_leases: Concurrent = 10


class AssignProxy(Body):
    """Puts a proxy into a domain's pool; priority 1 comes first."""

    proxy_id: ProxyId
    priority: Priority = 5


class AssignMany(Body):
    """Puts many proxies into a domain's pool, all with one priority."""

    proxy_ids: Annotated[list[ProxyId], Field(min_length=1, max_length=MOST_AT_ONCE)]
    priority: Priority = 5


class ChangePair(Body):
    """Enabling a pair also ends its cool-down and takes it off the blocklist."""

    operator_disabled: StrictBool | None = None
    priority: Priority | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.operator_disabled is None and self.priority is None:
            raise ValueError("operator_disabled or priority is needed")
        return self


class PutPolicy(Body):
    """The whole policy of a domain: what is not named is the default. Null means the broker's own setting."""

    strategy: Strategy = "lru"
    sticky_by: StickyBy = "session"
    sticky_for: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(minutes=10)
    country_code: Country = ""
    providers: Annotated[list[Name], Field(max_length=100), AfterValidator(_distinct)] = []
    kinds: Annotated[list[Kind], Field(max_length=3), AfterValidator(_distinct)] = []
    # From the cheapest to the dearest; empty means that all kinds are alike.
    tiers: Annotated[list[Tier], Field(max_length=4), AfterValidator(_distinct), AfterValidator(_climbing)] = []
    pair_failures: Annotated[Whole, Field(ge=1, le=10_000)] | None = None
    pair_cooldown: Duration | None = None
    block_cooldown: Duration | None = None
    wave_proxies: Annotated[Whole, Field(ge=1, le=10_000)] | None = None


class PutBudget(Body):
    """A month's money. From `alert_share` of it on there is an alert; when it is gone leases stop."""

    monthly_amount: Annotated[Decimal, Field(ge=0, max_digits=12, decimal_places=2)]
    alert_share: Annotated[float, BeforeValidator(_whole), Field(gt=0, le=1, allow_inf_nan=False)] = 0.8


class ImportOptions(Body):
    """Defaults for what a line does not say, and a pool to put all of them into."""

    dry_run: bool = False
    protocol: Protocol = "http"
    kind: Kind = "datacenter"
    country_code: Country = ""
    city: Text = ""
    provider: Name = ""
    monthly_cost: Money | None = None
    cost_per_gb: PerGb | None = None
    max_requests_per_hour: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    max_concurrent_leases: Annotated[int, Field(ge=1, le=100_000)] | None = None
    domain: (
        Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f\s/]+$")] | None
    ) = None
    priority: Annotated[int, Field(ge=1, le=10)] = 5
