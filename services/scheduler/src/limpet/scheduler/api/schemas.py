"""What the scheduler's API takes. Unknown fields are refused by name."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator

from limpet.scheduler.canonical import BadUrl, canonical

USER_AGENT = "Limpet/0.1 (+https://example.com/limpet)"
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
HeaderText = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[\x20-\x7e]+$")]
Frequency = Annotated[timedelta, Field(gt=timedelta(0))]


def _whole(value: Any) -> Any:
    """A number is a number: neither `true` nor "5" counts as one."""
    if isinstance(value, bool | str):
        raise ValueError("must be a number")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Seconds = Annotated[float, BeforeValidator(_whole), Field(ge=0, le=3600, allow_inf_nan=False)]
Limit = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=10_000)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DomainIn(Body):
    name: Annotated[str, StringConstraints(min_length=1, max_length=260)]
    base_url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    parser_name: Name = "generic"
    crawl_delay_seconds: Seconds = 1.0
    max_concurrent_requests: Limit = 5
    max_per_group: Limit = 5
    user_agent: HeaderText = USER_AGENT
    proxy_policy: Literal["none", "preferred", "required"] = "none"
    min_body_bytes: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=1 << 20)] = 0
    default_crawl_frequency: Frequency = timedelta(days=1)

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


class DomainChange(Body):
    base_url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    parser_name: Name | None = None
    crawl_delay_seconds: Seconds | None = None
    max_concurrent_requests: Limit | None = None
    max_per_group: Limit | None = None
    user_agent: HeaderText | None = None
    proxy_policy: Literal["none", "preferred", "required"] | None = None
    min_body_bytes: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=1 << 20)] | None = None
    is_active: bool | None = None
    default_crawl_frequency: Frequency | None = None


class BulkTask(Body):
    url: Annotated[str, StringConstraints(min_length=1, max_length=8192)]
    priority: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=10)] = 5
    scheduled_at: datetime | None = None
    max_retries: Annotated[int, BeforeValidator(_whole), Field(ge=0, le=100)] = 3
    group_key: Name | None = None
    parser_name: Name | None = None
    is_recurring: bool = True
    crawl_frequency: Frequency | None = None

    @field_validator("scheduled_at")
    @classmethod
    def _zoned(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("must have a time zone, like 2030-01-01T00:00:00Z")
        return value


class TaskIn(BulkTask):
    batch: Name | None = None


class BulkIn(Body):
    tasks: Annotated[list[BulkTask], Field(min_length=1, max_length=10_000)]
    batch: Name | None = None


class BatchIn(Body):
    name: Name
    follow: bool = False
    recrawl: bool = False
    max_pages: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=10**12)] | None = None
