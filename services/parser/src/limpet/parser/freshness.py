"""How fresh an answer is, in its headers and beside its data."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

HEADER: Final = "X-Data-Freshness"
AGE_HEADER: Final = "X-Data-Age-Seconds"
SOURCE: Final = "scraper"


def age_seconds(scraped_at: datetime, *, now: datetime) -> int:
    """Whole seconds; two clocks may differ a little, and nothing is younger than new."""
    return max(0, int((now - scraped_at).total_seconds()))


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def headers(scraped: Iterable[datetime], *, now: datetime) -> dict[str, str]:
    """Of the oldest thing in the answer: nothing in it is older. An empty answer has no age."""
    oldest = min(scraped, default=None)
    return {} if oldest is None else {HEADER: stamp(oldest), AGE_HEADER: str(age_seconds(oldest, now=now))}


def metadata(scraped_at: datetime, *, task_id: int, attempt: int, now: datetime) -> dict[str, Any]:
    """The scraper of a page is the attempt that fetched it."""
    return {
        "scraped_at": stamp(scraped_at),
        "data_age_seconds": age_seconds(scraped_at, now=now),
        "scraper_id": f"{task_id}:{attempt}",
        "source": SOURCE,
    }


def of_many(scraped: Iterable[datetime], *, now: datetime) -> dict[str, Any] | None:
    """Of a whole page: as old as the oldest in it, by no single scraper."""
    oldest = min(scraped, default=None)
    if oldest is None:
        return None
    age = age_seconds(oldest, now=now)
    return {"scraped_at": stamp(oldest), "data_age_seconds": age, "scraper_id": None, "source": SOURCE}
