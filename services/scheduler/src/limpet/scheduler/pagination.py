"""How a list goes on: which of its pages to ask for next, and when it has ended.

A page is heard once for each URL that was handed out; its own URL is the one that was asked for, before any redirect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from limpet.contracts.events.v1.parse_pb2 import Link

MAX_PAGES = 10_000

# learning: no rule has worked yet; valid: one works; exhausted: one worked and ended; invalid: none ever worked.
Stage = Literal["learning", "valid", "exhausted", "invalid"]


@dataclass(frozen=True)
class PageSeen:
    """What became of one page of a list."""

    # As it was handed out, before any redirect.
    url: str
    links: Sequence[Link]
    # "good": fetched and parsed. "failed": given up (404 too, see `http_status`).
    status: Literal["good", "failed"]
    item_urls: Sequence[str]
    # As in PageParsed; empty where the page has no text.
    fingerprint: bytes
    says_empty: bool
    # The site refused us: it says nothing about the list, the page will be asked for again.
    blocked: bool
    http_status: int


@dataclass(frozen=True)
class State:
    """What is known of one list. `to_json` and `from_json` make it fit a jsonb column."""

    start_url: str
    max_pages: int = MAX_PAGES
    stage: Stage = "learning"
    # Handed out and not heard of yet.
    open_urls: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "start_url": self.start_url,
            "max_pages": self.max_pages,
            "stage": self.stage,
            "open_urls": list(self.open_urls),
            **self.more,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> State:
        known = {"start_url", "max_pages", "stage", "open_urls"}
        return cls(
            start_url=value["start_url"],
            max_pages=value["max_pages"],
            stage=value["stage"],
            open_urls=tuple(value["open_urls"]),
            more={key: kept for key, kept in value.items() if key not in known},
        )


@dataclass(frozen=True)
class Step:
    """What to do after a page."""

    # Pages to ask for now: absolute and canonical, none of them handed out before.
    next_urls: list[str]
    # No page is open and none will come.
    finished: bool
    state: State
    # For people: "exhausted at 7: the page says that it is empty".
    why: str


def begin(url: str, *, max_pages: int = MAX_PAGES) -> State:
    """A list whose first page has been asked for, and nothing heard of it."""
    return State(start_url=url, max_pages=max_pages, open_urls=(url,))


def heard(state: State, page: PageSeen) -> Step:
    """A page of the list was heard of: what comes next."""
    still_open = tuple(url for url in state.open_urls if url != page.url or page.blocked)
    after = State(state.start_url, state.max_pages, state.stage, still_open, state.more)
    return Step([], not still_open, after, "blocked: it decides nothing" if page.blocked else "one page")
