"""How a list goes on: which of its pages to ask for next, and when it has ended. Pure.

A page is heard once for each URL that was handed out; its own URL is the one that was asked for, before any redirect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from limpet.contracts.events.v1.parse_pb2 import Link, LinkRel
from limpet.scheduler.canonical import BadUrl, Canonical, canonical

MAX_PAGES = 10_000

Stage = Literal["learning", "valid", "exhausted", "invalid"]


@dataclass(frozen=True)
class PageSeen:
    """What became of one page of a list."""

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
    # For people.
    why: str
    # The page brought nothing: it is past the end of the list.
    past_end: bool = False


def begin(url: str, *, max_pages: int = MAX_PAGES) -> State:
    """A list whose first page has been asked for, and nothing heard of it."""
    return State(start_url=url, max_pages=max_pages, open_urls=(url,), more={"asked": [url]})


def heard(state: State, page: PageSeen) -> Step:
    """Only what the page itself calls the next one is followed."""
    if page.blocked:
        return Step([], False, state, "blocked: it decides nothing")
    asked = list(state.more.get("asked", [state.start_url]))
    wanted = _next_of(page) if page.status == "good" and not page.says_empty else None
    fresh = wanted if wanted is not None and wanted not in asked and len(asked) < state.max_pages else None
    left = tuple(url for url in state.open_urls if url != page.url) + ((fresh,) if fresh else ())
    stage: Stage = "valid" if left or page.status == "good" else "exhausted"
    after = replace(state, stage=stage, open_urls=left, more={"asked": [*asked, fresh] if fresh else asked})
    if fresh is not None:
        return Step([fresh], False, after, "it names its next page")
    past_end = page.status == "failed" or page.says_empty
    return Step([], not left, after, f"exhausted at {len(asked)}: the last page names no next one", past_end)


def _next_of(page: PageSeen) -> str | None:
    """The link that is said to lead there; where none is, the one whose number of the page is one higher."""
    targets = [(link.rel, target) for link in page.links if (target := _target(link.url)) is not None]
    here = canonical(page.url)
    upcoming = _with_page(here.url, _page_number(here.url) + 1)
    said = [target.url for rel, target in targets if rel == LinkRel.LINK_REL_NEXT and target.domain == here.domain]
    numbered = [target.url for _, target in targets if target.url == upcoming]
    return next(iter(said or numbered), None)


def _target(url: str) -> Canonical | None:
    try:
        return canonical(url)
    except BadUrl:
        return None


def _page_number(url: str) -> int:
    values = dict(parse_qsl(urlsplit(url).query))
    number = values.get("page", "1")
    return int(number) if number.isdecimal() and len(number) < 8 else 1


def _with_page(url: str, number: int) -> str:
    parts = urlsplit(url)
    query = [(key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if key != "page"]
    return canonical(urlunsplit(parts._replace(query=urlencode([*query, ("page", number)])))).url
