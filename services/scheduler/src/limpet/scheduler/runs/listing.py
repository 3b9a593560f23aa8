"""What a start page has come to, and which links of its list pages are wanted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import re2

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind
from limpet.scheduler.canonical import BadUrl, Canonical, canonical
from limpet.scheduler.pagination import PageSeen, State, heard

# The oldest failures of a start page are forgotten first.
FAILURES_KEPT: Final = 20
ERROR_KEPT: Final = 500
GONE: Final = frozenset({404, 410})
PATTERN_MEMORY: Final = 1 << 20


class BadPattern(ValueError):
    """This text is no pattern."""


@lru_cache(maxsize=256)
def pattern(text: str) -> Any:
    """URLs are foreign and patterns are typed by people: nothing here goes back over what it has read."""
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise BadPattern(f"is not a pattern: {error}") from None


def items_of(links: Iterable[Link], *, domain: str, wanted: str | None) -> dict[bytes, Canonical]:
    """The links to publish, each once: those that match what is wanted, else those that look like items; of the site alone."""
    found: dict[bytes, Canonical] = {}
    matches = pattern(wanted).search if wanted is not None else None
    for link in links:
        if matches is None and link.kind != LinkKind.LINK_KIND_ITEM:
            continue
        try:
            target = canonical(link.url)
        except BadUrl:
            continue
        if target.domain == domain and (matches is None or matches(target.url)):
            found[target.digest] = target
    return found


@dataclass
class StartPage:
    """A locked row. It changes as the pages of one batch of facts are heard in turn."""

    run_id: UUID
    start_no: int
    url: str
    state: str
    collected: int
    pages: int
    open_pages: int
    failure_count: int
    failures: list[dict[str, Any]]
    paging: dict[str, Any]
    reason: str | None
    # From here on: what is decided.
    next_urls: list[str] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.state in ("pending", "paginating")

    def stumbled(self, *, at: datetime, proxy_id: int | None, error: str) -> None:
        """A try of one of its pages failed, whatever comes of it."""
        self.begun()
        self.failure_count += 1
        told = {"time": at.isoformat(), "proxy_id": proxy_id, "error": error[:ERROR_KEPT]}
        self.failures = [*self.failures, told][-FAILURES_KEPT:]

    def begun(self) -> None:
        if self.state == "pending":
            self.state = "paginating"

    def read(
        self,
        url: str,
        *,
        links: Sequence[Link],
        item_urls: Sequence[str],
        fingerprint: bytes,
        says_empty: bool,
        http_status: int,
        most: int,
    ) -> None:
        """A list page was fetched and parsed."""
        self._go_on(
            PageSeen(url, links, "good", item_urls, fingerprint, says_empty, blocked=False, http_status=http_status),
            most=most,
        )

    def lost(self, url: str, *, error: str, http_status: int, most: int) -> None:
        """A list page was given up. Where it is simply not there, the list may have ended; else a part of it is missing."""
        if http_status in GONE and url != self.url:
            self._go_on(
                PageSeen(url, [], "failed", [], b"", says_empty=False, blocked=False, http_status=http_status),
                most=most,
            )
        else:
            self._left()
            self.fail(f"{url}: {error}")

    def fail(self, reason: str) -> None:
        self.state, self.reason, self.next_urls = "failed", reason[:ERROR_KEPT], []

    def _go_on(self, page: PageSeen, *, most: int) -> None:
        self.begun()
        self._left()
        step = heard(State.from_json(self.paging), page)
        self.paging = step.state.to_json()
        if self.pages + len(self.next_urls) + len(step.next_urls) > most:
            self.fail(f"it has more than {most} list pages (max_list_pages)")
            return
        self.next_urls += step.next_urls
        self.reason = step.why
        if step.finished:
            self.state = "completed"

    def _left(self) -> None:
        self.open_pages = max(0, self.open_pages - 1)

    def asked(self, count: int) -> None:
        """So many of its next pages became tasks. Where none is on its way, nothing more will come."""
        self.pages += count
        self.open_pages += count
        if self.open_pages == 0 and self.state == "paginating":
            self.state = "completed"
