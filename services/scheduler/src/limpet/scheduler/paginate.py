"""Lists that a batch follows: what their pages tell goes to the predictor, and what it asks for becomes tasks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel
from limpet.kit.pg import Conn
from limpet.scheduler.numbering import GUESSES, Rule, is_sure, readings, stem_of
from limpet.scheduler.pagination import PageSeen, State, Step, begin, heard
from limpet.scheduler.path_pattern import path_pattern
from limpet.scheduler.store.followed_lists import get_lists, save_lists
from limpet.scheduler.store.pagination_rules import Learned, get_rules, learn_rules
from limpet.scheduler.traps import without_session

# Pages that hold one thing are no lists, whatever their links look like.
SINGLE = frozenset({"product", "article", "file", "sitemap", "feed"})
# Fewer links to things than this do not make a list.
LEAST_ITEMS = 3
LEAST_ENTRIES = 4
# http://host has two slashes: what lies there are the sections of a site.
ROOT = 2
Evidence = Literal["sure", "likely"]
# A site where so many kinds of lists could not be guessed is left alone: only what is known to work is tried there.
MOST_MISSES = 5
TOLD = (LinkRel.LINK_REL_NEXT, LinkRel.LINK_REL_PREV)
PAGINATION, ITEM = LinkKind.LINK_KIND_PAGINATION, LinkKind.LINK_KIND_ITEM


@dataclass(frozen=True)
class ListPage:
    """A page of a list, good or missing, as its task knows it."""

    batch_id: int
    domain_id: int
    url: str
    depth: int
    links: Sequence[Link] = ()
    fingerprint: bytes = b""
    says_empty: bool = False
    http_status: int = 200
    evidence: Evidence = "sure"

    @property
    def kind_of_list(self) -> tuple[int, str]:
        """Lists of one kind are numbered alike."""
        return self.domain_id, path_pattern(stem_of_list(self.url))


@dataclass(frozen=True)
class Wanted:
    """A further page of a list. It is as far from the start as the page that led to it."""

    page: ListPage
    url: str


def list_evidence(page_type: str, url: str, links: Sequence[Link]) -> Evidence | None:
    """How sure it is that a page is one of a list, by what the parser says and by its links."""
    if page_type in SINGLE:
        return None
    if page_type == "listing" or any(map(is_sure, readings(url))):
        return "sure"
    items = 0
    folders: Counter[str] = Counter()
    for link in links:
        if link.rel in TOLD or link.kind == PAGINATION:
            return "sure"
        items += link.kind == ITEM
        folders[link.url.rpartition("/")[0]] += 1
    if items >= LEAST_ITEMS:
        return "likely"
    # Things beside each other, and not beside the page itself: there they are its siblings.
    del folders[url.rpartition("/")[0]]
    return (
        "likely"
        if any(count >= LEAST_ENTRIES and folder.count("/") > ROOT for folder, count in folders.items())
        else None
    )


def leads_on(page: ListPage, link: Link) -> bool:
    """Whether a link claims to be a further page of the same list."""
    if link.rel == LinkRel.LINK_REL_NEXT:
        return True
    return link.kind == PAGINATION and stem_of_list(link.url) == stem_of_list(page.url)


def stem_of_list(url: str) -> str:
    """What the pages of a list have in common; other lists have another."""
    return next((one.stem for one in readings(url) if is_sure(one)), None) or stem_of(url)


@dataclass
class Told:
    """What the predictor makes of some pages."""

    wanted: list[Wanted] = field(default_factory=list)
    # Pages past the end of their list: (batch, URL).
    past_end: set[tuple[int, str]] = field(default_factory=set)
    # Kinds of lists for which every way was tried in vain: there is no use in looking at more of them.
    hopeless: set[tuple[int, str]] = field(default_factory=set)


async def paginate(conn: Conn, pages: Sequence[ListPage]) -> Told:
    """The domains of the pages are locked by the caller, so nobody else changes these lists."""
    keys = {(page.batch_id, stem_of_list(page.url)): None for page in pages}
    states = {key: State.from_json(json.loads(text)) for key, text in (await get_lists(conn, list(keys))).items()}
    rules: list[Learned] | None = None
    told = Told()
    learned: list[Learned] = []
    for page in pages:
        key = (page.batch_id, stem_of_list(page.url))
        before = states.get(key)
        if before is None:
            if rules is None:
                rules = await get_rules(conn, sorted({one.domain_id for one in pages}))
            before = _begin(page, [rule for rule in rules if rule.domain_id == page.domain_id])
        step = heard(before, _seen(page))
        if key not in states and step.finished and not before.guesses and not before.template:
            # Nothing was tried and nothing will be.
            told.hopeless.add(page.kind_of_list)
            continue
        states[key] = step.state
        told.wanted += [Wanted(page, url) for url in step.next_urls]
        if step.past_end:
            told.past_end.add((page.batch_id, page.url))
        learned += _lessons(page, before, step)
    if states:
        await save_lists(conn, {key: json.dumps(state.to_json()) for key, state in states.items()})
    if learned:
        await learn_rules(conn, _merged(learned))
    return told


def _begin(page: ListPage, rules: Sequence[Learned]) -> State:
    pattern = path_pattern(stem_of_list(page.url))
    alike = [one for one in rules if one.path_pattern == pattern]
    good = [_rule(one) for one in (*alike, *rules) if one.worked]
    # What did not work for lists like this one is not tried again, nor anything new on a site where nothing did.
    bad = {(one.style, one.key) for one in alike if one.state == "invalid"}
    misses = sum(one.state == "invalid" for one in rules)
    may_guess = "?" not in page.url and misses < MOST_MISSES * len(GUESSES)
    tried = dict.fromkeys([*good, *(GUESSES if may_guess else ())])
    return begin(page.url, rules=[rule for rule in tried if (rule.style, rule.key) not in bad], guess=False)


def _rule(learned: Learned) -> Rule:
    return Rule(learned.style, learned.key, learned.step)  # type: ignore[arg-type]


def _seen(page: ListPage) -> PageSeen:
    return PageSeen(
        url=page.url,
        links=page.links,
        status="good" if page.http_status < 300 else "failed",
        item_urls=_entries(page),
        fingerprint=page.fingerprint,
        says_empty=page.says_empty,
        blocked=False,
        http_status=page.http_status,
    )


def _entries(page: ListPage) -> list[str]:
    """Any link may be an entry: a page past the end has only those that all pages have.

    Sessions make no new ones, and the same path under other parameters is the list itself, filtered or ordered.
    """
    own = page.url.partition("?")[0]
    return [
        without_session(link.url, tracking=True)
        for link in page.links
        if link.rel not in TOLD and link.kind != PAGINATION and link.url.partition("?")[0] != own
    ]


def _lessons(page: ListPage, before: State, step: Step) -> list[Learned]:
    """What this page has shown about the way in which lists of its kind are numbered."""
    after, pattern = step.state, path_pattern(stem_of_list(page.url))
    if before.guessed and (after.style, after.key) != (before.style, before.key):
        return [Learned(page.domain_id, pattern, before.style, before.key, before.step, "invalid", None, 0, 1)]
    if after.rule is None or not after.worked or (after.worked == before.worked and after.stage == before.stage):
        return []
    ended = after.end if step.finished else None
    worked = after.worked - before.worked
    return [Learned(page.domain_id, pattern, after.style, after.key, max(1, after.step), after.stage, ended, worked, 0)]


def _merged(learned: Sequence[Learned]) -> list[Learned]:
    """One of each: a statement touches a row once."""
    merged: dict[tuple[int, str, str, str], Learned] = {}
    for one in learned:
        key = (one.domain_id, one.path_pattern, one.style, one.key)
        first = merged.get(key)
        merged[key] = one if first is None else _sum(first, one)
    return list(merged.values())


def _sum(first: Learned, second: Learned) -> Learned:
    worked = first.worked + second.worked
    state = first.state if second.state == "invalid" and worked else second.state
    return Learned(
        first.domain_id, first.path_pattern, first.style, first.key, second.step, state,
        second.exhausted_at if second.exhausted_at is not None else first.exhausted_at, worked, first.missed + second.missed,
    )  # fmt: skip
