"""Addresses that never end: session ids, repeated and ever-longer paths, calendars, combinations of filters. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from limpet.scheduler.numbering import is_counter

# Names that only ever hold a session, and those that do when the value looks like one.
_SESSIONS: Final = frozenset(
    {
        "jsessionid",
        "phpsessid",
        "sessionid",
        "session_id",
        "sessid",
        "aspsessionid",
        "cfid",
        "cftoken",
        "oscsid",
        "zenid",
    }
)
_MAYBE_SESSIONS: Final = frozenset({"sid", "s", "session", "sess", "ssid", "token"})
_TOKEN: Final = re.compile(r"(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{16,}|\d{16,}")
_IN_PATH: Final = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/?;]*|/\([A-Z]\([^)/]{10,}\)\)", re.IGNORECASE)
_TRACKING: Final = re.compile(r"utm_\w+|[gd]clid|fbclid|msclkid|mc_[ce]id|yclid|igshid", re.IGNORECASE)
_CALENDAR_WORD: Final = re.compile(
    r"(?:^|[/_-])(?:calendar|calendrier|kalender|calendario|agenda|events?|termine|veranstaltungen|schedule|timetable)"
    r"(?:[/_.-]|$)",
    re.IGNORECASE,
)
_DATE_KEYS: Final = frozenset({"year", "month", "day", "date", "week", "y", "m", "d", "jahr", "monat", "tag", "when"})
_ISO: Final = re.compile(r"(?:^|[^\d])((?:1\d|2\d)\d\d)[-/]?(?:[01]\d)?")
_YEAR: Final = re.compile(r"[12]\d{3}")
_NUMBERS: Final = re.compile(r"\d+")
MOST_SEGMENTS: Final = 16
# Sane sites seldom go deeper; below, only so many are taken.
DEEP: Final = 8
LONGEST: Final = 1500
MOST_REPEATS: Final = 2
FIRST_YEAR: Final = 1970


@dataclass(frozen=True)
class Trap:
    """Why an address may never end. With a shape, so many of the same shape may be taken; without one, none."""

    reason: str
    shape: str | None = None


def without_session(url: str, *, tracking: bool) -> str:
    """The same address without what names a session; with `tracking` also without what names a campaign."""
    if "?" not in url and ";" not in url and "(" not in url:
        return url
    parts = urlsplit(url)
    path = _IN_PATH.sub("", parts.path)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    kept = [pair for pair in pairs if not _is_session(*pair) and not (tracking and _TRACKING.fullmatch(pair[0]))]
    if path == parts.path and len(kept) == len(pairs):
        return url
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(kept), parts.fragment))


def _is_session(key: str, value: str) -> bool:
    name = key.lower()
    return name in _SESSIONS or (name in _MAYBE_SESSIONS and _TOKEN.fullmatch(value) is not None)


def trap_in(url: str, *, today: date) -> Trap | None:
    """The trap that a canonical URL may be part of."""
    if len(url) > LONGEST:
        return Trap("too_long")
    path = url.partition("?")[0].partition("://")[2]
    segments = path.split("/")[1:]
    if len(segments) > 3:
        if len(segments) > MOST_SEGMENTS:
            return Trap("too_long")
        if max(Counter(segment for segment in segments if segment).values(), default=0) > MOST_REPEATS:
            return Trap("repeated_segments")
        if len(segments) > DEEP:
            return Trap("deep", f"deep {path.partition('/')[0]}/{segments[0]}")
    query = url.partition("?")[2]
    if not query and not any(map(str.isdigit, path)):
        return None
    pairs = parse_qsl(query, keep_blank_values=True) if query else []
    return _calendar(path, pairs, today=today) or _facets(path, pairs)


def _calendar(path: str, pairs: list[tuple[str, str]], *, today: date) -> Trap | None:
    """Dates that no site can have anything for, and calendars, which lead to the next month for ever."""
    own = path.partition("/")[2]
    is_named = _CALENDAR_WORD.search("/" + own) is not None
    dates = [value for key, value in pairs if key.lower() in _DATE_KEYS or (is_named and _ISO.match(value))]
    in_path = [
        segment for segment in own.split("/") if _YEAR.fullmatch(segment) or re.fullmatch(r"[12]\d{3}-\d\d.*", segment)
    ]
    if not dates and not in_path:
        return None
    years = [int(found[1]) for text in (*dates, *in_path) if (found := _ISO.match(text)) is not None]
    # A year alone in a path may be any number; a date is one.
    certain = bool(dates) or is_named
    if certain and any(year > today.year + 1 or year < FIRST_YEAR for year in years):
        return Trap("calendar")
    if not certain or not (is_named or _is_date(pairs)):
        return None
    return Trap("calendar", f"calendar {_NUMBERS.sub('#', path)} {','.join(sorted({key for key, _ in pairs}))}")


def _is_date(pairs: list[tuple[str, str]]) -> bool:
    names = {key.lower() for key, _ in pairs}
    whole = any(key.lower() in ("date", "day", "week", "when") and _ISO.match(value) for key, value in pairs)
    return whole or bool(names & {"year", "y", "jahr"} and names & {"month", "m", "monat", "week"})


def _facets(path: str, pairs: list[tuple[str, str]]) -> Trap | None:
    """Filters and orders that can be combined: two or more parameters that count no pages."""
    filters = [key for key, _ in pairs if not is_counter(key)]
    return Trap("facets", f"facets {path}") if len(filters) > 1 else None
