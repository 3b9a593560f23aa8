"""The pagination predictor, played against lists of every shape: all of each is found, and no end is overrun."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel
from limpet.scheduler.canonical import canonical
from limpet.scheduler.numbering import Rule, apply, fill, number_in, readings, step_of
from limpet.scheduler.pagination import WINDOW, PageSeen, State, Step, begin, heard

SITE = "http://shop.test"


@dataclass(frozen=True)
class Page:
    items: Sequence[int] = ()
    links: Sequence[str] = ()
    following: str | None = None
    status: int = 200
    says_empty: bool = False
    text: str | None = None
    refusals: int = 0


Site = Callable[[str], Page]
GONE = Page(status=404)


def seen(url: str, page: Page) -> PageSeen:
    links = [Link(url=SITE + path, kind=LinkKind.LINK_KIND_PAGINATION) for path in page.links]
    if page.following:
        links.append(Link(url=SITE + page.following, rel=LinkRel.LINK_REL_NEXT))
    text = page.text if page.text is not None else f"{sorted(page.items)}"
    return PageSeen(
        url=url,
        links=links,
        status="good" if page.status == 200 else "failed",
        item_urls=[f"{SITE}/things/{number}" for number in page.items],
        fingerprint=sha256(text.encode()).digest()[:8],
        says_empty=page.says_empty,
        blocked=False,
        http_status=page.status,
    )


@dataclass
class Crawl:
    asked: list[str]
    items: set[int]
    last: Step


def crawl(site: Site, start: str, *, max_pages: int = 200, rules: Sequence[Rule] = ()) -> Crawl:
    """Ask for what the predictor wants until it has enough; the state goes through JSON each time, as it does in a table."""
    state = begin(SITE + start, max_pages=max_pages, rules=rules)
    open_urls = list(state.open_urls)
    done = Crawl([], set(), Step([], False, state, ""))
    refused: dict[str, int] = {}
    while open_urls:
        url = open_urls.pop(0)
        page = site(url.removeprefix(SITE))
        if refused.get(url, 0) < page.refusals:
            refused[url] = refused.get(url, 0) + 1
            blocked = PageSeen(url, [], "failed", [], b"", False, True, 403)
            step = heard(state, blocked)
            assert (step.next_urls, step.finished, step.state) == ([], False, state), "a block decides nothing"
            open_urls.append(url)
            continue
        done.asked.append(url.removeprefix(SITE))
        assert len(done.asked) <= 1000
        done.last = heard(state, seen(url, page))
        if page.status == 200:
            done.items |= set(page.items)
        state = State.from_json(json.loads(json.dumps(done.last.state.to_json())))
        assert state == done.last.state
        open_urls += done.last.next_urls
        assert done.last.finished == (not open_urls)
    return done


def entries(number: int, *, pages: int = 7, each: int = 5) -> range:
    return range((number - 1) * each, number * each) if 1 <= number <= pages else range(0)


def numbered(style: str, *, pages: int = 7, links: str = "all", past: str = "gone") -> Site:
    """A list of so many pages; `past` says what comes after the last one."""

    def site(path: str) -> Page:
        number = 1 if path == "/list" else number_in(SITE + style, SITE + path)
        if number is None:
            return GONE
        if number > pages:
            if past == "clamped":
                number = pages
            elif past == "first":
                number = 1
            else:
                return {"gone": GONE, "empty": Page(text="none"), "says": Page(text="no results", says_empty=True)}[
                    past
                ]
        near = {"all": range(1, pages + 1), "next": (number + 1,), "none": ()}[links]
        paths = [style.replace("{}", str(one)) for one in near if one <= pages and one != number]
        return Page(entries(number, pages=pages), links=paths)

    return site


EVERYTHING = set(range(35))


@pytest.mark.parametrize("style", ["/list?page={}", "/list?p={}", "/list/page/{}", "/list/p{}", "/list-{}.html"])
@pytest.mark.parametrize("past", ["gone", "empty", "says", "clamped", "first"])
@pytest.mark.parametrize("links", ["all", "next"])
def test_s23_every_page_of_a_linked_list_is_found_and_at_most_one_past_it_is_asked_for(
    style: str, past: str, links: str
) -> None:
    done = crawl(numbered(style, past=past, links=links), "/list")
    assert done.items == EVERYTHING
    assert len(done.asked) == len(set(done.asked)), "no page twice"
    assert len(done.asked) <= 7 + 2, "the first page under its number, and one past the end"
    assert (done.last.finished, done.last.state.stage, done.last.state.end) == (True, "exhausted", 8)
    assert done.last.why.startswith("exhausted at 8: ")


@pytest.mark.parametrize("past", ["gone", "empty", "says", "clamped", "first"])
@pytest.mark.parametrize("style", ["/list?page={}", "/list/page/{}"])
def test_s23_a_list_whose_next_is_only_javascript_is_found_by_trying(style: str, past: str) -> None:
    done = crawl(numbered(style, past=past, links="none"), "/list")
    assert done.items == EVERYTHING
    assert len(done.asked) <= 7 + 2, "one way that does not work, and one page past the end"


def test_s23_the_url_itself_says_how_its_list_goes_on() -> None:
    done = crawl(numbered("/list?pg={}", links="none"), "/list?pg=1")
    assert done.items == EVERYTHING
    assert done.asked[:3] == ["/list?pg=1", "/list?pg=2", "/list?pg=3"]


def test_s23_what_worked_elsewhere_on_the_site_is_tried_first() -> None:
    done = crawl(numbered("/list/seite-{}", links="none"), "/list", rules=[Rule("path", "/seite-{}")])
    assert done.items == EVERYTHING
    assert done.asked[:2] == ["/list", "/list/seite-2"]


def offsets(key: str, *, first: int = 0, links: bool = True) -> Site:
    def site(path: str) -> Page:
        at = first if path == "/list" else number_in(f"{SITE}/list?{key}={{}}", SITE + path)
        if at is None:
            return GONE
        items = range(at - first, min(at - first + 20, 95))
        following = [f"/list?{key}={at + 20}"] if links and at - first + 20 < 95 else []
        return Page(items, links=following, text=None if items else "none")

    return site


@pytest.mark.parametrize(("key", "first"), [("offset", 0), ("start", 0), ("start", 1), ("skip", 0)])
def test_s23_offsets_go_by_the_steps_of_their_links(key: str, first: int) -> None:
    done = crawl(offsets(key, first=first), "/list")
    assert done.items == set(range(95))
    assert len(done.asked) <= 6


def test_s23_an_offset_without_links_goes_by_the_entries_of_a_page() -> None:
    done = crawl(offsets("offset", links=False), "/list?offset=0")
    assert done.items == set(range(95))
    assert len(done.asked) <= 6


def test_s23_pages_counted_from_zero_are_found_whole() -> None:
    def site(path: str) -> Page:
        number = 0 if path == "/list" else number_in(f"{SITE}/list?page={{}}", SITE + path)
        if number is None or number > 6:
            return GONE
        return Page(entries(number + 1), links=[f"/list?page={one}" for one in range(1, 7)])

    assert crawl(site, "/list").items == EVERYTHING


def test_s23_next_links_are_followed_whatever_they_look_like_and_their_end_needs_no_trying() -> None:
    names = ["/list", "/list?after=k3x", "/list?after=p0q", "/list?after=zz"]

    def site(path: str) -> Page:
        at = names.index(path)
        return Page(entries(at + 1), following=names[at + 1] if at + 1 < len(names) else None)

    done = crawl(site, "/list")
    assert done.asked == names
    assert done.last.state.stage == "exhausted"


def test_s23_a_next_link_that_never_ends_is_left_when_it_brings_nothing_new() -> None:
    def site(path: str) -> Page:
        number = number_in(f"{SITE}/list?page={{}}", SITE + path) or 1
        return Page(entries(min(number, 7)), following=f"/list?page={number + 1}", text=f"page {number}")

    done = crawl(site, "/list")
    assert done.items == EVERYTHING
    assert len(done.asked) == 8
    assert done.last.why == "exhausted at 8: all entries of the page are known"


def test_s23_a_next_link_that_always_brings_something_is_left_at_the_limit() -> None:
    def site(path: str) -> Page:
        number = number_in(f"{SITE}/list?page={{}}", SITE + path) or 1
        return Page(entries(number, pages=10**6), following=f"/list?page={number + 1}")

    done = crawl(site, "/list", max_pages=50)
    assert len(done.asked) == 50
    assert "no more than 50 pages" in done.last.why


def test_s23_a_ring_of_next_links_is_walked_once() -> None:
    def site(path: str) -> Page:
        at = ord(path[-1]) - ord("a")
        return Page(entries(at + 1), following=f"/{chr(ord('a') + (at + 1) % 4)}")

    assert crawl(site, "/a").asked == ["/a", "/b", "/c", "/d"]


def test_s23_a_block_in_the_middle_ends_nothing() -> None:
    whole = numbered("/list?page={}", links="next")

    def site(path: str) -> Page:
        page = whole(path)
        return Page(page.items, page.links, refusals=2) if path == "/list?page=4" else page

    assert crawl(site, "/list").items == EVERYTHING


def test_s23_a_page_that_is_missing_before_pages_that_are_there_is_a_hole_and_not_the_end() -> None:
    whole = numbered("/list?page={}")
    done = crawl(lambda path: GONE if path == "/list?page=3" else whole(path), "/list")
    assert done.items == EVERYTHING - set(entries(3))
    assert done.last.state.end == 8


def test_s23_a_page_that_cannot_be_read_says_nothing_about_the_end() -> None:
    whole = numbered("/list?page={}")
    done = crawl(lambda path: Page(status=500) if path == "/list?page=3" else whole(path), "/list")
    assert done.items == EVERYTHING - set(entries(3))


def test_s23_a_page_that_is_no_list_costs_two_tries_and_its_rule_never_worked() -> None:
    done = crawl(lambda path: Page(range(3)), "/about")
    assert done.asked == ["/about", "/about?page=2", "/about/page/2"]
    assert (done.last.state.stage, done.last.state.rule) == ("invalid", None)


def test_s23_a_page_without_entries_is_not_tried_further() -> None:
    done = crawl(lambda path: Page(text="Contact us"), "/contact")
    assert done.asked == ["/contact"]


def test_s23_a_link_to_page_one_million_does_not_bring_a_million_requests() -> None:
    def site(path: str) -> Page:
        number = number_in(f"{SITE}/list?page={{}}", SITE + path) or 1
        return Page(entries(number), links=["/list?page=999999"]) if number <= 7 else GONE

    done = crawl(site, "/list")
    assert done.items == EVERYTHING
    assert len(done.asked) <= 8 + 2 * WINDOW


def test_s23_parameters_that_only_look_like_page_numbers_are_left_alone() -> None:
    articles = [f"/?p={number}" for number in (4711, 4712, 4719)]

    def site(path: str) -> Page:
        return Page(range(3), links=[]) if path == "/" else GONE

    state = begin(SITE + "/")
    page = seen(SITE + "/", site("/"))
    for article in articles:
        page.links.append(Link(url=SITE + article, kind=LinkKind.LINK_KIND_ITEM))  # type: ignore[attr-defined]
    assert heard(state, page).state.key != "p"


def test_s23_links_to_other_lists_and_other_hosts_are_not_its_pages() -> None:
    page = seen(SITE + "/list", Page(range(5), links=["/hats?page=2", "/list/red?page=3"]))
    page.links.append(Link(url="http://other.test/list?page=2", rel=LinkRel.LINK_REL_NEXT))  # type: ignore[attr-defined]
    step = heard(begin(SITE + "/list"), page)
    assert step.next_urls == [SITE + "/list?page=2"], "its own way is tried"
    assert step.state.guessed


def test_s23_a_page_is_heard_once() -> None:
    state = begin(SITE + "/list")
    first = seen(SITE + "/list", Page(range(5), links=["/list?page=2"]))
    step = heard(state, first)
    again = heard(step.state, first)
    assert (again.next_urls, again.state) == ([], step.state)


pages = st.builds(
    Page,
    items=st.lists(st.integers(0, 40), max_size=6),
    links=st.lists(st.sampled_from([f"/list?page={n}" for n in (0, 1, 2, 3, 9, 70, 999_999)] + ["/list/page/3", "/x?offset=20"]), max_size=4),
    following=st.none() | st.sampled_from(["/list?page=2", "/list?page=5", "/list?cursor=a", "/list?cursor=b", "/list"]),
    status=st.sampled_from([200, 200, 200, 404, 500]),
    says_empty=st.booleans(),
    text=st.none() | st.sampled_from(["a", "b"]),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    answers=st.lists(pages, min_size=1, max_size=30), start=st.sampled_from(["/list", "/list?page=2", "/list/page/1"])
)
def test_s23_whatever_a_site_answers_the_walk_ends_within_its_limit_and_asks_for_no_page_twice(
    answers: list[Page], start: str
) -> None:
    turn = 0

    def site(path: str) -> Page:
        nonlocal turn
        turn += 1
        return answers[turn % len(answers)]

    done = crawl(site, start, max_pages=40)
    assert len(done.asked) <= 40
    assert len(done.asked) == len(set(done.asked))
    assert done.last.finished
    assert done.last.state.stage in ("exhausted", "invalid")
    assert len(json.dumps(done.last.state.to_json())) < 30_000


@given(
    query=st.lists(st.tuples(st.sampled_from(["page", "q", "sort", "z", "A"]), st.integers(0, 10**6)), max_size=4),
    path=st.lists(st.sampled_from(["a", "page", "2", "x-3.html", "p7", "{}"]), max_size=4),
    number=st.integers(0, 999_999),
)
def test_s23_a_number_that_is_put_into_a_url_is_read_from_it_again(
    query: list[tuple[str, int]], path: list[str], number: int
) -> None:
    text = "&".join(f"{key}={value}" for key, value in query)
    url = canonical(f"{SITE}/{'/'.join(path)}?{text}").url
    for one in readings(url):
        assert fill(one.template, one.number) == url or str(one.number) not in url
        assert number_in(one.template, fill(one.template, number)) == number
    for rule in (Rule("query", "page"), Rule("path", "/page/{}")):
        template = apply(rule, url)
        assert template is not None
        filled = fill(template, number)
        assert canonical(filled).url == filled, "what is asked for is canonical"


def test_s23_steps_are_what_all_offsets_have_in_common() -> None:
    assert step_of(Rule("query", "offset"), [20, 40, 100]) == 20
    assert step_of(Rule("query", "start"), [21, 41]) == 20
    assert step_of(Rule("query", "page"), [2, 4]) == 1
    assert step_of(Rule("query", "offset"), [0]) == 0
