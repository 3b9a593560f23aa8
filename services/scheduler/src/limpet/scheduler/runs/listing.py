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
from limpet.scheduler.pagination import PageSeen, State, Step, heard

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

    @classmethod
    def paging_of(cls, state: State, *, guess: str | None = None) -> dict[str, Any]:
        """What is kept of a list. `guess` is the page that is on its way without anybody having linked to it."""
        return {"list": state.to_json(), "guess": guess}

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
    ) -> bool:
        """A list page was fetched and parsed. False where it is past the end of its list: what it shows is not of it."""
        return self._go_on(
            PageSeen(url, links, "good", item_urls, fingerprint, says_empty, blocked=False, http_status=http_status),
            most=most,
        )

    def lost(self, url: str, *, error: str, http_status: int, most: int, blocked: bool = False) -> None:
        """A list page was given up. Where it is not there, the list may have ended; else a part of it is missing.

        Of a page that nobody linked to, any answer of the site but a refusal says that it is not there.
        """
        guessed = url == self.paging["guess"] and http_status > 0 and not blocked
        if url != self.url and (http_status in GONE or guessed):
            self._go_on(
                PageSeen(url, [], "failed", [], b"", says_empty=False, blocked=False, http_status=http_status),
                most=most,
            )
        else:
            self.left()
            self.fail(f"{url}: {error}")

    def fail(self, reason: str) -> None:
        self.state, self.reason, self.next_urls = "failed", reason[:ERROR_KEPT], []

    def _go_on(self, page: PageSeen, *, most: int) -> bool:
        self.begun()
        self.left()
        step = heard(State.from_json(self.paging["list"]), page)
        self.paging = self.paging_of(step.state, guess=_guess(step, page) or self.paging["guess"])
        if self.pages + len(self.next_urls) + len(step.next_urls) > most:
            self.fail(f"it has more than {most} list pages (max_list_pages)")
            return True
        self.next_urls += step.next_urls
        self.reason = step.why
        if step.finished:
            self.state = "completed"
        return not step.past_end

    def left(self) -> None:
        """One of its pages is on its way no more."""
        self.open_pages = max(0, self.open_pages - 1)

    def asked(self, count: int) -> None:
        """So many of its next pages became tasks. Where none is on its way, nothing more will come."""
        self.pages += count
        self.open_pages += count
        if self.open_pages == 0 and self.state == "paginating":
            self.state = "completed"


def _guess(step: Step, page: PageSeen) -> str | None:
    """The page that is asked for next, where it is the only one and nothing on this page leads there."""
    if len(step.next_urls) != 1 or tuple(step.state.open_urls) != tuple(step.next_urls):
        return None
    (url,) = step.next_urls
    return None if any(_leads_to(link, url) for link in page.links) else url


def _leads_to(link: Link, url: str) -> bool:
    try:
        return canonical(link.url).url == url
    except BadUrl:
        return False
