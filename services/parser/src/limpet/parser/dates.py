"""Dates as sitemaps and feeds write them. What makes no sense is no date."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

_W3C: Final = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:[Tt ](\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?([Zz]|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_LONGEST: Final = 64
# Nothing on the web is older; 1970 and 0001 are what broken software writes.
_EARLIEST: Final = datetime(1990, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def w3c(text: str) -> datetime | None:
    """From a year to fractions of a second; without a zone it is UTC, without a day the first."""
    found = _W3C.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micro = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        moment = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), min(int(second or 0), 59), micro, _zone(zone)
        )  # fmt: skip
        return _known(moment)
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=4096)
def mail(text: str) -> datetime | None:
    """RFC 822 and its heirs, as RSS has them; many feeds write W3C dates there."""
    if len(text) > _LONGEST:
        return None
    if moment := w3c(text):
        return moment
    try:
        found = parsedate_to_datetime(text)
        return _known(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def stamp(moment: datetime) -> Timestamp:
    return Timestamp(seconds=int(moment.timestamp()), nanos=moment.microsecond * 1000)


def _known(moment: datetime) -> datetime | None:
    moment = moment.astimezone(UTC)
    return moment if moment >= _EARLIEST else None


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-offset if text[0] == "-" else offset)
