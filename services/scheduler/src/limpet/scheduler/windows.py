"""Maintenance windows: the hours in which a domain is left alone, by the clock of its own time zone. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


class UnknownZone(ValueError):
    """No time zone has this name."""


@cache
def zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownZone(f"no time zone is named {name!r}; names are like Europe/Berlin or UTC") from error


def closed_until(*, start: time | None, end: time | None, zone_name: str, now: datetime) -> datetime | None:
    """When the window that `now` lies in ends, or None outside of it. From start up to, not including, end; a window
    whose end is not after its start goes over midnight. On days when clocks change it keeps to the wall's time."""
    if start is None or end is None or start == end:
        return None
    place = zone(zone_name)
    today = now.astimezone(place).date()
    # Yesterday's window may reach into today.
    for first in (today - timedelta(days=1), today):
        last = first if end > start else first + timedelta(days=1)
        opens = datetime.combine(first, start, tzinfo=place).astimezone(UTC)
        closes = datetime.combine(last, end, tzinfo=place).astimezone(UTC)
        if opens <= now < closes:
            return closes
    return None
