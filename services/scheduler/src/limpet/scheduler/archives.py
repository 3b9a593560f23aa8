"""Where a site may keep its archives, from its own evidence, and whether what is there is one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final
from urllib.parse import urlsplit

# Always worth one request.
USUAL: Final = ("/archive", "/sitemap")
MOST_DATES: Final = 72
YEARS_BACK: Final = 1
# The year, and the month where there is one, with what stands before them.
_DATED: Final = re.compile(
    r"(?P<before>(?:/[^/\d?]+)*)/(?P<year>(?:19|20)\d\d)(?:(?P<cut>[/-])(?P<month>0[1-9]|1[0-2])(?=[/-]|$))?"
)
# Words for archives, as the site itself uses them in addresses that brought pages.
_ARCHIVAL: Final = re.compile(
    r"(?:/[^/?]+)*?/(?:archives?|archiv|archivo|back-?issues|all-posts|past-issues)(?=/|$)", re.IGNORECASE
)
# Two pages that differ in so few of 64 bits say the same, but for a word.
ALIKE_BITS: Final = 5


@dataclass
class _Shape:
    years: set[int]
    has_months: bool = False
    cut: str = "/"


def archive_candidates(urls: Iterable[str], *, today: date) -> list[str]:
    """Paths that may be archives, the likeliest first: the usual ones, those the site's words promise, its dates, latest first."""
    paths = [urlsplit(url).path for url in urls]
    learned = dict.fromkeys(found[0] for path in paths if (found := _ARCHIVAL.match(path)))
    dated = _dated_paths(paths, today=today)
    return list(dict.fromkeys([*USUAL, *learned, *dated]))


def _dated_paths(paths: Iterable[str], *, today: date) -> list[str]:
    shapes: dict[str, _Shape] = {}
    for path in paths:
        found = _DATED.match(path)
        if found is None or int(found["year"]) > today.year + 1:
            continue
        shape = shapes.setdefault(found["before"], _Shape(set()))
        shape.years.add(int(found["year"]))
        if found["month"]:
            shape.has_months, shape.cut = True, found["cut"]
    dates: list[tuple[int, int, str]] = []
    for before, shape in shapes.items():
        # From the site's own first year, and one before it, to this one.
        for year in range(min(shape.years) - YEARS_BACK, today.year + 1):
            dates.append((year, 13, f"{before}/{year}/"))
            last = today.month if year == today.year else 12
            months = range(1, last + 1) if shape.has_months else ()
            dates += [(year, month, f"{before}/{year}{shape.cut}{month:02}/") for month in months]
    dates.sort(key=lambda one: one[:2], reverse=True)
    return [path for _, _, path in dates][:MOST_DATES]


@dataclass(frozen=True)
class Said:
    """What a site said at an address."""

    fingerprint: bytes
    simhash: int
    says_empty: bool = False


def is_soft_404(page: Said, missing: Said | None, others: Iterable[Said] = ()) -> bool:
    """Whether the site only says in other words that there is nothing. `missing` is what it said of a page that cannot exist;
    None where it said honestly that there is none."""
    if page.says_empty:
        return True
    return any(_alike(page, one) for one in (*(() if missing is None else (missing,)), *others))


def _alike(page: Said, other: Said) -> bool:
    if page.fingerprint and page.fingerprint == other.fingerprint:
        return True
    # Without text there is no hash, and nothing to compare.
    return bool(page.simhash and other.simhash) and (page.simhash ^ other.simhash).bit_count() <= ALIKE_BITS


def judge_probes(candidates: Mapping[int, Said], missing: Said | None) -> dict[int, str]:
    """`found` or `soft_404` for each."""
    return {task_id: "soft_404" if is_soft_404(said, missing) else "found" for task_id, said in candidates.items()}
