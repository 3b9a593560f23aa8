"""Times and counts as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def clock(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment is not None else "a time that is not known"


def times(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
