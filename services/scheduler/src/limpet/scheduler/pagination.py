"""How a list goes on: which of its pages to ask for next, and when it has ended. Pure.

Links come first: a next link, then the numbers that are linked. Where they end, one page past the highest known one is tried,
and where nothing is linked the ways of numbering that the site is known for, then the usual ones.

A page is heard once for each URL that was handed out; its own URL is the one that was asked for, before any redirect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.numbering import (
    GUESSES,
    MOST,
    Numbered,
    Rule,
    apply,
    fill,
    is_offset,
    is_sure,
    number_in,
    readings,
    stem_of,
    step_of,
)

MAX_PAGES: Final = 10_000
# Pages that may be asked for at once: a link to page 1000000 must not bring a million requests.
WINDOW: Final = 8
# What is remembered of earlier pages: enough to know a page that comes again, whatever the length of the list.
MOST_PRINTS: Final = 64
MOST_ITEMS: Final = 600
MOST_ASKED: Final = 400
GONE: Final = (404, 410)
# Where nothing but a name speaks for it, the pages of a list are numbered from its beginning: ?p=4711 is something else.
MOST_FIRST: Final = 10

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
    """What is known of one list. `to_json` and `from_json` make it fit a jsonb column; its size is bounded."""

    start_url: str
    max_pages: int = MAX_PAGES
    stage: Stage = "learning"
    # Handed out and not heard of yet.
    open_urls: tuple[str, ...] = ()
    # How its pages are numbered, as far as that is known; empty while it is not.
    template: str = ""
    style: str = ""
    key: str = ""
    step: int = 1
    # Nothing on the site has shown it: it is tried.
    guessed: bool = False
    # Ways that may still be tried: (style, key, step).
    guesses: tuple[tuple[str, str, int], ...] = ()
    # The highest number that was asked for (-1: none yet), that was good, and that was linked.
    asked_top: int = 0
    good_top: int = 0
    linked_top: int = 0
    # Where the list ended.
    end: int | None = None
    # Pages after the first one that brought something.
    worked: int = 0
    handed_out: int = 1
    has_next_links: bool = False
    asked: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    items: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> State:
        known = {one.name for one in fields(cls)}
        kept: dict[str, Any] = {
            name: tuple(seen) if isinstance(seen, list) else seen for name, seen in value.items() if name in known
        }
        return cls(**{**kept, "guesses": tuple((style, key, step) for style, key, step in kept.get("guesses", ()))})

    @property
    def rule(self) -> Rule | None:
        """How this list is numbered, for other lists of the site."""
        return _rule(self) if self.template else None


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
    # The page brought nothing: what it links to as further pages of the list leads nowhere.
    past_end: bool = False


def begin(url: str, *, max_pages: int = MAX_PAGES, rules: Sequence[Rule] = (), guess: bool = True) -> State:
    """A list whose first page has been asked for. `rules` have worked elsewhere on the site; without `guess` only they are tried."""
    start = canonical(url).url
    tried = dict.fromkeys((*rules, *(GUESSES if guess else ())))
    state = State(
        start, max_pages, open_urls=(start,), guesses=tuple((rule.style, rule.key, rule.step) for rule in tried)
    )
    own = next((one for one in readings(start) if is_sure(one)), None)
    if own is None:
        return state
    # The URL itself says how its list is numbered.
    return _adopt(state, own)


def heard(state: State, page: PageSeen) -> Step:
    """A page of the list was heard of: what comes next."""
    if page.blocked:
        return Step([], False, state, "refused: that decides nothing, it is asked for again")
    if page.url not in state.open_urls and _digest(page.url) in state.asked:
        return Step([], not state.open_urls, state, "heard before")
    state = replace(
        state,
        open_urls=tuple(url for url in state.open_urls if url != page.url),
        asked=_remember(state.asked, [_digest(page.url)], most=MOST_ASKED),
    )
    number = number_in(state.template, page.url) if state.template else None
    if page.status == "failed" and page.http_status not in GONE:
        return _go_on(state, page, f"a page failed with status {page.http_status}, which says nothing about the list")
    reason = _ending(state, page)
    if reason is None:
        return _go_on(_learn(state, page, number), page, "")
    if page.url != state.start_url and number is not None and number <= 1 and page.status == "good":
        return _go_on(state, page, "the first page under another address")
    return replace(_go_on(_end(state, page, number), page, reason), past_end=True)


def _ending(state: State, page: PageSeen) -> str | None:
    """Why this page is past the end of the list; None where it brings something."""
    if page.status == "failed":
        return f"status {page.http_status}"
    if page.says_empty:
        return "the page says that it is empty"
    if page.fingerprint and page.fingerprint.hex() in state.prints:
        return "the page equals an earlier one"
    known = set(state.items)
    if page.item_urls and all(_digest(url) in known for url in page.item_urls):
        return "all entries of the page are known"
    if not page.item_urls and known:
        return "the page has no entries"
    return None


def _end(state: State, page: PageSeen, number: int | None) -> State:
    if page.url == state.start_url:
        # A list without a first page has no second one.
        return replace(state, guesses=(), template="", style="", key="", stage="invalid", end=0)
    if state.guessed:
        # This way was none; another may be.
        return replace(state, template="", style="", key="", guessed=False, asked_top=0, good_top=0)
    at = state.good_top if number is None else number
    return state if at < state.good_top else replace(state, end=at if state.end is None else min(state.end, at))


def _learn(state: State, page: PageSeen, number: int | None) -> State:
    """A good page: what it holds, and what its links say about the way on."""
    worked = state.worked + (page.url != state.start_url)
    good_top = max(state.good_top, number or 0)
    state = replace(
        state,
        worked=worked,
        stage="valid" if worked else "learning",
        guessed=state.guessed and not worked,
        good_top=good_top,
        # What was missing before a page that is there was a hole, and not the end.
        end=None if state.end is not None and good_top > state.end else state.end,
        prints=_remember(state.prints, [page.fingerprint.hex()] if page.fingerprint else [], most=MOST_PRINTS),
        items=_remember(state.items, [_digest(url) for url in page.item_urls], most=MOST_ITEMS),
    )
    urls = {
        url: _tells(link) for link in page.links if (url := _spelt(link.url)) and _host(url) == _host(state.start_url)
    }
    if not state.template:
        state = _find_template(state, urls)
    numbers = [seen for url in urls if (seen := number_in(state.template, url)) is not None] if state.template else []
    if not numbers:
        return state
    own = number_in(state.template, state.start_url)
    known = [one for one in (own, state.good_top or None) if one is not None]
    step = step_of(_rule(state), [*numbers, *known]) or state.step
    if state.asked_top < 0:
        # The first page has no number: the second one has the least that is linked, or 2 where only later ones are.
        first = min(numbers) if step > 1 else min(*numbers, 2)
        state = replace(state, asked_top=max(0, first - step))
    return replace(state, step=step, linked_top=max(state.linked_top, *numbers))


def _find_template(state: State, urls: Mapping[str, bool]) -> State:
    """How the links number the pages of this list, where any does."""
    stems = {stem_of(state.start_url), *(one.stem for one in readings(state.start_url))}
    found = [
        one
        for url, told in urls.items()
        for one in readings(url)
        if one.stem in stems
        and (told or is_sure(one))
        and (told or one.number <= MOST_FIRST or is_offset(one.rule.key))
    ]
    if not found:
        return state
    best = min(found, key=lambda one: (not is_sure(one), one.number))
    return _adopt(state, best)


def _adopt(state: State, one: Numbered) -> State:
    own = number_in(one.template, state.start_url)
    return replace(
        state,
        template=one.template,
        style=one.rule.style,
        key=one.rule.key,
        step=step_of(one.rule, [] if own is None else [own]),
        asked_top=-1 if own is None else own,
        good_top=own or 0,
    )


def _tells(link: Link) -> bool:
    """The page itself says that this leads to another page of its list."""
    return link.rel == LinkRel.LINK_REL_NEXT or link.kind == LinkKind.LINK_KIND_PAGINATION


def _go_on(state: State, page: PageSeen, why: str) -> Step:
    """The pages to ask for now, and what that makes of the list."""
    brought = page.status == "good" and not why
    wanted: list[str] = []
    for url in _next_links(page, state.start_url) if brought else ():
        state = replace(state, has_next_links=True)
        if state.template and (number := number_in(state.template, url)) is not None:
            state = replace(state, linked_top=max(state.linked_top, number))
        elif _is_new(state, url):
            wanted.append(url)
    numbers = _linked_numbers(state)
    wanted += [fill(state.template, number) for number in numbers]
    state = replace(state, asked_top=max([state.asked_top, *numbers]))
    if not wanted and not state.open_urls:
        state, wanted, said = _speculate(state, page, brought=brought)
        why = why or said
    wanted = [url for url in wanted if _is_new(state, url)][: max(0, state.max_pages - state.handed_out)]
    state = replace(state, open_urls=(*state.open_urls, *wanted), handed_out=state.handed_out + len(wanted))
    if state.open_urls:
        return Step(wanted, False, state, why or "more pages are linked")
    if state.handed_out >= state.max_pages:
        why = f"no more than {state.max_pages} pages are taken"
    state = replace(state, stage="exhausted" if state.worked else "invalid", guesses=())
    end = "no further page" if not state.worked else f"exhausted at {state.end}" if state.end else "exhausted"
    return Step([], True, state, f"{end}: {why}")


def _next_links(page: PageSeen, start_url: str) -> list[str]:
    found = [_spelt(link.url) for link in page.links if link.rel == LinkRel.LINK_REL_NEXT]
    return list(dict.fromkeys(url for url in found if url is not None and _host(url) == _host(start_url)))[:1]


def _linked_numbers(state: State) -> list[int]:
    """Numbers up to the highest one that is linked, a few at a time: those between are there, whether linked or not."""
    room = WINDOW - len(state.open_urls)
    if not state.template or state.end is not None or state.step < 1 or room < 1:
        return []
    first = state.asked_top + state.step
    return list(range(first, min(state.linked_top, first + room * state.step - 1) + 1, state.step))


def _is_new(state: State, url: str) -> bool:
    return url not in state.open_urls and url != state.start_url and _digest(url) not in state.asked


def _speculate(state: State, page: PageSeen, *, brought: bool) -> tuple[State, list[str], str]:
    """One page past the highest known, where what the links say ends."""
    if state.end is not None:
        return state, [], "the list ends there"
    if not state.items:
        return state, [], "nothing says that this is a list"
    if not state.template:
        if state.has_next_links or state.worked:
            return state, [], "the page has no next link"
        return _guess(state)
    if not brought or (state.has_next_links and not _next_links(page, state.start_url)):
        return state, [], "the page has no next link" if brought else "nothing leads on"
    step = state.step or len(set(page.item_urls))
    number = max(state.good_top, state.asked_top, 1 if step == 1 else 0) + step
    url = fill(state.template, number)
    if number > MOST or not _is_new(state, url):
        return state, [], "nothing leads on"
    return replace(state, step=step, asked_top=number), [url], "one page past the highest known"


def _guess(state: State) -> tuple[State, list[str], str]:
    """The next of the ways that may be tried."""
    for at, (style, key, step) in enumerate(state.guesses):
        template = apply(Rule(style, key, step), state.start_url)  # type: ignore[arg-type]
        # Page 1 is the one that we have; entries are counted from 0.
        number = step if step > 1 else 2
        if template is None or not _is_new(state, url := fill(template, number)):
            continue
        state = replace(
            state,
            template=template, style=style, key=key, step=step, guessed=True, guesses=state.guesses[at + 1 :],
            asked_top=number, good_top=0 if step > 1 else 1,
        )  # fmt: skip
        return state, [url], f"tried as a way on: {style} {key}"
    return replace(state, guesses=()), [], "no way of numbering works"


def _rule(state: State) -> Rule:
    return Rule(state.style, state.key, state.step)  # type: ignore[arg-type]


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _remember(kept: tuple[str, ...], new: Iterable[str], *, most: int) -> tuple[str, ...]:
    """The latest ones, each once; what is seen again is young again."""
    return tuple(dict.fromkeys([*new, *kept]))[:most]


def _spelt(url: str) -> str | None:
    try:
        return canonical(url).url
    except BadUrl:
        return None
