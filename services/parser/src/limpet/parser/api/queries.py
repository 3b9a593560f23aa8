"""What a list can be asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from limpet.parser.api.formats import Format

PAGE: Final = 100
BIGINT: Final = 2**63 - 1
# PostgreSQL has no NUL in text, so nothing can match it.
_NO_NUL: Final = r"^[^\x00]*$"


def _text(value: object) -> object:
    """A bare number is no time, whatever it could be the seconds of."""
    if isinstance(value, str) and "-" in value[1:]:
        return value
    raise ValueError("must be a date and a time with a zone, as in 2026-01-31T12:00:00Z")


def _storable(moment: datetime) -> datetime:
    """A time that a database and a query string can hold."""
    if not 1900 <= moment.year <= 9990:
        raise ValueError("must be between the years 1900 and 9990")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, BeforeValidator(_text), AfterValidator(_storable)]
Amount = Annotated[Decimal, Field(ge=0, max_digits=21, decimal_places=6)]


class _ListQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int | None = Field(default=None, ge=1, le=1_000, description="100 in JSON; all in other formats.")
    after: int = Field(default=0, ge=0, le=BIGINT, description="The `next` of the page before.")
    format: Format | None = Field(default=None, description="Else what `Accept` says; JSON where it says nothing.")
    domain: str | None = Field(default=None, max_length=255, pattern=_NO_NUL)


class ItemQuery(_ListQuery):
    batch: str | None = Field(default=None, max_length=255, pattern=_NO_NUL)
    parser: str | None = Field(default=None, max_length=100, pattern=_NO_NUL)
    task_id: int | None = Field(default=None, ge=1, le=BIGINT)


class ProductQuery(_ListQuery):
    q: str | None = Field(
        default=None,
        min_length=1,
        max_length=300,
        pattern=_NO_NUL,
        description='Words of name, brand, numbers or category; "a phrase", -without, or.',
    )
    price_min: Amount | None = None
    price_max: Amount | None = None
    currency: str | None = Field(default=None, pattern=r"^[A-Za-z]{3}$")
    availability: str | None = Field(default=None, max_length=100, pattern=_NO_NUL)
    updated_since: Moment | None = Field(default=None, description="Changed (not only seen) at or after this time.")
    sku: str | None = Field(default=None, max_length=500, pattern=_NO_NUL)
    gtin: str | None = Field(default=None, max_length=500, pattern=_NO_NUL)
    gone: bool | None = Field(default=False, description="Those that their pages have no more, instead.")
    listed: bool | None = Field(default=None, description="Those of lists only, or those of pages of their own only.")
