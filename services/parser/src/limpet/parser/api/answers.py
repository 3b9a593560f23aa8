"""What the parser's API answers, field by field."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from limpet.parser.freshness import AGE_HEADER, HEADER

Row = TypeVar("Row")

FRESHNESS: Final[dict[str, Any]] = {
    HEADER: {
        "description": "When the oldest data of the answer (of a stream: of its first piece) was scraped.",
        "schema": {"type": "string", "format": "date-time"},
    },
    AGE_HEADER: {"description": "Its age.", "schema": {"type": "string", "pattern": "^[0-9]+$"}},
}


class Metadata(BaseModel):
    scraped_at: datetime
    data_age_seconds: int = Field(ge=0)
    scraper_id: str | None = Field(description="The attempt that fetched the page, `task:attempt`; null for many.")
    source: str


class _Fresh(BaseModel):
    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


class Listing(_Fresh, Generic[Row]):
    items: list[Row]
    next: int | None = Field(description="Give it as `after` to get the next page; null at the end.")
    metadata: Metadata | None = Field(alias="_metadata", description="As old as the oldest here; null for none.")


class Item(_Fresh):
    item_id: int
    task_id: int
    attempt: int
    url: str
    domain: str
    batch: str
    parser: str
    parser_version: str
    page_type: str
    data: Any
    scraped_at: datetime
    metadata: Metadata = Field(alias="_metadata")


class Product(_Fresh):
    product_id: int
    task_id: int
    attempt: int
    version: int
    domain: str
    batch: str
    url: str
    page_url: str
    listed: bool = Field(description="One of several on its page.")
    name: str
    brand: str | None
    sku: str | None
    gtin: str | None
    mpn: str | None
    price: str | None = Field(description="A decimal.")
    price_high: str | None
    list_price: str | None
    currency: str | None
    availability: str | None
    condition: str | None
    category: str | None
    data: dict[str, Any] = Field(description="The item, whole.")
    parser: str
    parser_version: str
    first_seen_at: datetime
    scraped_at: datetime
    changed_at: datetime
    gone_at: datetime | None = Field(description="Since when its page does not have it any more.")
    metadata: Metadata = Field(alias="_metadata")


class Version(_Fresh):
    version: int
    attempt: int
    gone: bool = Field(description="From here on its page did not have it.")
    data: dict[str, Any]
    parser: str
    parser_version: str
    scraped_at: datetime
    metadata: Metadata = Field(alias="_metadata")
