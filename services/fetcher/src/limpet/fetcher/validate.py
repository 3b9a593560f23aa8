"""Is this answer a page? Status first, then challenge markup in small pages, then size. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.contracts.events.v1.page_pb2 import RejectKind

MAX_RETRY_AFTER = 86_400
# A real page may name a captcha; a challenge page is small and says nothing but that.
CHALLENGE_BYTES = 30_000
CHALLENGE_TEXT = 600
_MARKERS = (
    b"cf-challenge",
    b"cf-chl",
    b"cf_chl_",
    b"/cdn-cgi/challenge-platform",
    b"challenge-form",
    b"g-recaptcha",
    b"h-captcha",
    b"hcaptcha.com",
    b"captcha-delivery.com",
    b"px-captcha",
    b"_incapsula_resource",
    b"awswafintegration",
    b"captcha",
)
_HIDDEN = re.compile(rb"<(?:(script|style|noscript|template|head)\b|!--)")
_HTML = ("text/html", "application/xhtml+xml", "")


@dataclass(frozen=True, slots=True)
class Rejection:
    """The site answered, but not with a page."""

    kind: RejectKind.ValueType
    reason: str
    retry_after_seconds: int = 0
    # The page says outright that we are refused.
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that brought no page."""

    kind: FailureKind.ValueType
    error: str
    # A proxy did its work and says that the site was not there.
    of_the_site: bool = False


def verdict(
    *,
    status: int,
    content_type: str,
    body: bytes,
    retry_after: int,
    min_body_bytes: int,
    is_page: bool = True,
) -> Rejection | Failure | None:
    """None means: a good page. Only pages are judged by content, never robots.txt, sitemaps and the like."""
    if 200 <= status < 300:
        return _content(content_type, body, min_body_bytes=min_body_bytes) if is_page else None
    if status in (403, 429):
        hard = len(body) <= CHALLENGE_BYTES and b"access denied" in body.lower()
        why = ' with an "Access Denied" page' if hard else ""
        return Rejection(RejectKind.REJECT_KIND_BLOCKED, f"status {status}{why}", retry_after, hard=hard)
    if status in (503, 504):
        marker = challenge_in(body)
        if retry_after or marker:
            why = f"challenge markup {marker!r}" if marker else f"Retry-After {retry_after} s"
            return Rejection(RejectKind.REJECT_KIND_BLOCKED, f"status {status} with {why}", retry_after)
    if status >= 500:
        return Failure(FailureKind.FAILURE_KIND_SERVER_ERROR, f"status {status}")
    return Failure(FailureKind.FAILURE_KIND_CLIENT_ERROR, f"status {status}")


def _content(content_type: str, body: bytes, *, min_body_bytes: int) -> Rejection | None:
    if content_type not in _HTML:
        return None
    if marker := challenge_in(body):
        return Rejection(RejectKind.REJECT_KIND_BLOCKED, f"a small page with challenge markup {marker!r}")
    if len(body) < min_body_bytes:
        return Rejection(
            RejectKind.REJECT_KIND_GARBAGE, f"{len(body)} bytes of HTML where {min_body_bytes} are the least"
        )
    return None


def challenge_in(body: bytes) -> str:
    """The marker by which a challenge page is known, or nothing."""
    if len(body) > CHALLENGE_BYTES:
        return ""
    lowered = body.lower()
    marker = next((marker for marker in _MARKERS if marker in lowered), None)
    if marker is None or b"<script" not in lowered:
        return ""
    text = b" ".join(_visible(lowered).split())
    return marker.decode() if len(text) <= CHALLENGE_TEXT else ""


def _visible(lowered: bytes) -> bytes:
    """What is left without tags, comments, scripts and the like. Linear: an end that is missing is looked for once."""
    kept: list[bytes] = []
    missing: set[bytes] = set()
    at = 0
    while (start := lowered.find(b"<", at)) >= 0:
        kept.append(lowered[at:start])
        found = at = start
        if hidden := _HIDDEN.match(lowered, start):
            ending = b"</" + hidden[1] if hidden[1] else b"-->"
            found = lowered.find(ending, hidden.end()) if ending not in missing else -1
            if found < 0:
                missing.add(ending)
        end = lowered.find(b">", max(found, start))
        if end < 0:
            break
        at = end + 1
    return b" ".join([*kept, lowered[at:]])


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
