"""Is this answer a page? Status first, then what blocks.py finds in it, then size. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.contracts.events.v1.page_pb2 import RejectKind
from limpet.fetcher.blocks import Wall, wall_in

MAX_RETRY_AFTER = 86_400
REFUSALS: Final = (403, 429)
# Not a refusal by themselves, but some vendors challenge with them.
CHALLENGES: Final = (405, 406, 418, 503, 504)
# The site says itself that there is nothing.
NO_CONTENT: Final = (204, 205)
_KINDS: Final = {
    "blocked": RejectKind.REJECT_KIND_BLOCKED,
    "needs_render": RejectKind.REJECT_KIND_NEEDS_RENDER,
}
_HTML = ("text/html", "application/xhtml+xml", "")


@dataclass(frozen=True, slots=True)
class Rejection:
    """The site answered, but not with a page."""

    kind: RejectKind.ValueType
    reason: str
    retry_after_seconds: int = 0
    # The page says outright that we are refused.
    hard: bool = False
    # What spoke against the page, where it was the page that did.
    wall: Wall | None = None


@dataclass(frozen=True, slots=True)
class Overlooked:
    """Something speaks against the page, but its domain is in shadow mode: the page is taken all the same."""

    rejection: Rejection


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that brought no page."""

    kind: FailureKind.ValueType
    error: str
    # A proxy did its work and says that the site was not there.
    of_the_site: bool = False
    # The proxy did not take the request: nothing of it reached the site.
    unsent: bool = field(default=False, compare=False)


def verdict(
    *,
    status: int,
    content_type: str,
    body: bytes,
    retry_after: int,
    min_body_bytes: int,
    is_page: bool = True,
    ignored: frozenset[str] = frozenset(),
) -> Rejection | Failure | None:
    """None means: a good page. Only pages are judged by content, never robots.txt, sitemaps and the like.

    `ignored` names signatures that good pages of this site have.
    """
    is_html = content_type in _HTML
    if 200 <= status < 300:
        if not is_page or not is_html or status in NO_CONTENT:
            return None
        return _content(body, min_body_bytes=min_body_bytes, ignored=ignored)
    wall = wall_in(body, ignored=ignored) if is_html and (status in REFUSALS or status in CHALLENGES) else None
    if wall is not None and wall.kind != "blocked":
        wall = None
    if status in REFUSALS or wall is not None:
        why = f": {wall.reason}" if wall else ""
        hard = wall is not None and wall.hard
        return Rejection(RejectKind.REJECT_KIND_BLOCKED, f"status {status}{why}", retry_after, hard=hard, wall=wall)
    if status in (503, 504) and retry_after:
        why = f"status {status} with Retry-After {retry_after} s"
        return Rejection(RejectKind.REJECT_KIND_BLOCKED, why, retry_after)
    if status >= 500:
        return Failure(FailureKind.FAILURE_KIND_SERVER_ERROR, f"status {status}")
    return Failure(FailureKind.FAILURE_KIND_CLIENT_ERROR, f"status {status}")


def _content(body: bytes, *, min_body_bytes: int, ignored: frozenset[str]) -> Rejection | None:
    if wall := wall_in(body, ignored=ignored):
        return Rejection(_KINDS[wall.kind], wall.reason, hard=wall.hard, wall=wall)
    if not body.strip():
        return Rejection(RejectKind.REJECT_KIND_GARBAGE, "an answer without a page in it")
    if len(body) < min_body_bytes:
        return Rejection(
            RejectKind.REJECT_KIND_GARBAGE, f"{len(body)} bytes of HTML where {min_body_bytes} are the least"
        )
    return None


def retry_after_seconds(value: str, *, now: float) -> int:
    """The header as seconds from now: a number or an HTTP date. 0 when there is none, or none that makes sense."""
    value = value.strip()
    if not value:
        return 0
    if value.isascii() and value.isdigit():
        return min(int(value[:9]), MAX_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    left = (moment - datetime.fromtimestamp(now, UTC)).total_seconds()
    return min(max(0, round(left)), MAX_RETRY_AFTER)
