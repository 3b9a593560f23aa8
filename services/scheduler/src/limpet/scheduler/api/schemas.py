"""What the scheduler's API takes. Unknown fields are refused by name."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from limpet.scheduler.api.headers import Headers
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.windows import zone

MAX_TASKS = 10_000
_NUMBER = re.compile(r"\s*[+-]?[\d_.]+([eE][+-]?\d+)?\s*")
USER_AGENT = "Limpet/0.1 (+https://example.com/limpet)"
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
HeaderText = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[\x20-\x7e]+$")]


def _spelt(value: Any) -> Any:
    """A time is spelt out: bare numbers, of seconds or milliseconds, would be guessed at."""
    if isinstance(value, bool | int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("must be ISO 8601, not a number")
    return value


def _duration(value: Any) -> Any:
    """Seconds as a number, or ISO 8601; neither `true` nor "5" is a duration."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _spelt(value)


# Beyond that neither a calendar nor the database could add it to a time.
LONGEST = timedelta(days=3650)
Frequency = Annotated[
    timedelta,
    BeforeValidator(_duration),
    Field(gt=timedelta(0), le=LONGEST),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 1, "maximum": LONGEST.total_seconds()},
                {"type": "string", "format": "duration"},
            ]
        }
    ),
]


def _whole(value: Any) -> Any:
    """A number is a number: neither `true` nor "5" counts as one."""
    if isinstance(value, bool | str):
        raise ValueError("must be a number")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Seconds = Annotated[float, BeforeValidator(_whole), Field(ge=0, le=3600, allow_inf_nan=False)]
Limit = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=10_000)]


def _zone(name: str) -> str:
    zone(name)
    return name


def _local(value: time) -> time:
    if value.tzinfo is not None:
        raise ValueError("is a time of day without a zone; the zone is maintenance_zone")
    return value


# What JSON Schema calls a time has a zone; ours is of the zone beside it.
TimeOfDay = Annotated[time, WithJsonSchema({"type": "string", "pattern": r"^\d\d:\d\d(:\d\d(\.\d{1,6})?)?$"})]
Clock = Annotated[TimeOfDay, AfterValidator(_local)]
Zone = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_+/-]+$"), AfterValidator(_zone)
]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DomainSettings(Body):
    """What an operator decides about a domain; every field is also a column."""

    base_url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    parser_name: Name = "generic"
    crawl_delay_seconds: Seconds = 1.0
    max_concurrent_requests: Limit = 5
    max_per_group: Limit = 5
    user_agent: HeaderText = USER_AGENT
    proxy_policy: Literal["none", "preferred", "required"] = "none"
    min_body_bytes: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=1 << 20)] = 0
    is_active: StrictBool = True
    default_crawl_frequency: Frequency = timedelta(days=1)
    obey_robots: StrictBool = True
    maintenance_start: Clock | None = None
    maintenance_end: Clock | None = None
    maintenance_zone: Zone = "UTC"
    breaker_failures: Limit = 5
    breaker_rate: Annotated[float, BeforeValidator(_whole), Field(gt=0, le=1, allow_inf_nan=False)] = 0.5
    breaker_window_seconds: Annotated[float, BeforeValidator(_whole), Field(gt=0, le=86_400, allow_inf_nan=False)] = (
        60.0
    )
    breaker_cooldown_seconds: Annotated[float, BeforeValidator(_whole), Field(gt=0, le=86_400, allow_inf_nan=False)] = (
        60.0
    )
    breaker_successes: Limit = 5
    http2: Annotated[
        StrictBool, Field(description="Ask for HTTP/2 where the site is reached by TLS and speaks it.")
    ] = False
    headers: Annotated[
        Headers,
        Field(description="Sent with every request to this domain, and to no other origin that it redirects to."),
    ] = Field(default_factory=dict)
    validation: Annotated[
        Literal["enforce", "shadow"],
        Field(description="`shadow` keeps what is found against the content of pages, and takes them all the same."),
    ] = "enforce"
    ignored_signatures: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[a-z0-9_.-]+$")]],
        Field(max_length=50, description="Names of signatures that good pages of this domain have."),
    ] = Field(default_factory=list)

    @model_validator(mode="after")
    def _two_ends(self) -> Self:
        if (self.maintenance_start is None) != (self.maintenance_end is None):
            raise ValueError("maintenance_start and maintenance_end come together")
        return self


class DomainIn(DomainSettings):
    name: Annotated[str, StringConstraints(min_length=1, max_length=260)]

    @field_validator("name")
    @classmethod
    def _host(cls, value: str) -> str:
        """A domain is a host, with its port where that is not the scheme's own."""
        try:
            found = canonical(f"http://{value}/")
        except BadUrl as error:
            raise ValueError(f"is not a host name: {error}") from None
        if found.url != f"http://{found.domain}/" or "@" in value:
            raise ValueError("must be a host, like shop.example or shop.example:8443")
        return found.domain


class DomainChange(DomainSettings):
    """Only what is named is changed; null takes a maintenance window away."""

    @model_validator(mode="after")
    def _two_ends(self) -> Self:
        """A window may be changed at one end: the whole is checked when the other is known."""
        return self


def _zoned(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("must have a time zone, like 2030-01-01T00:00:00Z")
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None
    if value.year >= _TOO_LATE:
        raise ValueError(f"must be before the year {_TOO_LATE}")
    return value


# What is added to a time must not run over the end of the calendar.
_TOO_LATE = 3000
Moment = Annotated[datetime, BeforeValidator(_spelt), AfterValidator(_zoned)]
Priority = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=10)]
TaskId = Annotated[int, BeforeValidator(_whole), Field(ge=1, lt=1 << 63)]


class BulkTask(Body):
    url: Annotated[str, StringConstraints(min_length=1, max_length=8192)]
    priority: Priority = 5
    scheduled_at: Moment | None = None
    max_retries: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=100)] = 3
    group_key: Name | None = None
    parser_name: Name | None = None
    is_recurring: StrictBool = True
    crawl_frequency: Frequency | None = None
    parent_task_id: TaskId | None = None
    on_parent_failure: Literal["cancel", "release"] = "cancel"
    webhook_url: str | None = None


class TaskIn(BulkTask):
    batch: Name | None = None


class BulkIn(Body):
    tasks: Annotated[list[BulkTask], Field(min_length=1, max_length=MAX_TASKS)]
    batch: Name | None = None


class BatchIn(Body):
    name: Name
    follow: StrictBool = False
    recrawl: StrictBool = False
    max_pages: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=10**12)] | None = None
    webhook_url: str | None = None


class RestartIn(Body):
    reset_retry_count: StrictBool = True
    priority: Priority | None = None
    scheduled_at: Moment | None = None


class RestartParsingIn(Body):
    reset_retry_count: StrictBool = True


class RestartFailedIn(Body):
    domain: Name | None = None
    failed_after: Moment | None = None
    limit: Limit = 1000


class PriorityIn(Body):
    priority: Priority
