"""Whether what a run collected may be published: the gates before the commit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

FailurePolicy = Literal["abort", "skip", "quorum"]


class Gate(StrEnum):
    """Why a run is aborted. The last one is a person's decision."""

    MISSING = "missing"
    EMPTY = "empty"
    SHRINK = "shrink"
    PERSON = "person"


@dataclass(frozen=True)
class Terms:
    """What was asked of the run."""

    on_failed_start_page: FailurePolicy = "abort"
    # With the policy of that name: the share of the start pages that must complete.
    quorum: float = 0.5
    allow_empty: bool = False
    least_share: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How one start page ended."""

    url: str
    state: str
    collected: int
    reason: str | None


@dataclass(frozen=True)
class Refusal:
    gate: Gate
    reason: str


def is_over(pages: Sequence[Outcome], terms: Terms) -> bool:
    """Nothing more is waited for: all start pages ended, or one has failed that may not."""
    failed = any(page.state == "failed" for page in pages)
    return (failed and terms.on_failed_start_page == "abort") or all(
        page.state in ("completed", "failed") for page in pages
    )


def refusal(pages: Sequence[Outcome], terms: Terms, *, total: int, last: int | None) -> Refusal | None:
    """The first gate that is closed. `total` are the URLs to publish, `last` those of the site's last good run."""
    done = [page for page in pages if page.state == "completed"]
    # Where one failure is enough, the others may not have ended.
    missing = sorted((page for page in pages if page.state != "completed"), key=lambda page: page.state != "failed")
    if missing and not _bearable(len(done), len(pages), terms):
        first = missing[0]
        failed = sum(page.state == "failed" for page in pages)
        why = f"{failed} of {len(pages)} start pages failed; {first.url}: {first.reason or first.state}"
        return Refusal(Gate.MISSING, why)
    empty = [page for page in done if page.collected == 0]
    if empty and not terms.allow_empty:
        why = f"{len(empty)} of {len(pages)} start pages completed without a single URL; {empty[0].url} is one of them"
        return Refusal(Gate.EMPTY, why)
    if terms.least_share is not None and last is not None and total < terms.least_share * last:
        why = f"{total} URLs are less than {terms.least_share:.0%} of the {last} of the last good run"
        return Refusal(Gate.SHRINK, why)
    return None


def _bearable(done: int, count: int, terms: Terms) -> bool:
    match terms.on_failed_start_page:
        case "skip":
            return done > 0
        case "quorum":
            return done > 0 and done >= terms.quorum * count
    return False
