"""Sites that each make one thing hard to find, or easy to get lost in. Each knows what there is to find on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.site.rendering import sitemap_xml
from tests.support.site.serving import Answer, Site

PAGES, EACH = 6, 5
XML, TEXT = "application/xml", "text/plain; charset=utf-8"
WORDS = [
    "anchor",
    "barnacle",
    "beacon",
    "bollard",
    "brass",
    "buoy",
    "cable",
    "capstan",
    "chart",
    "cleat",
    "compass",
    "coral",
    "current",
    "deck",
    "dock",
    "drift",
    "eddy",
    "ferry",
    "fathom",
    "fender",
    "foam",
    "galley",
    "gannet",
    "harbour",
    "hatch",
    "hull",
    "inlet",
    "jetty",
    "keel",
    "kelp",
    "ketch",
    "lagoon",
    "lantern",
    "limpet",
    "mainsail",
    "mast",
]
GONE = Answer(b"Not here.\n", status=404, content_type=TEXT)
# Path and query, how often it was asked for before, and the origin.
Answers = Callable[[str, int, str], Answer]


@dataclass(frozen=True)
class Shape:
    name: str
    answers: Answers
    # What there is to find.
    exists: frozenset[str]
    # Requests that are more than enough; a trap takes any number.
    most: int
    start: str = "/list"
    batch: Mapping[str, Any] = field(default_factory=dict)
    # What the domain is asked to look for when its pages were crawled.
    discover: str = "off"
    # How an address is known to the batch, where that is not how it was asked for.
    known_as: Callable[[str], str] = str


class ShapeSite(Site):
    def __init__(self, shape: Shape, *, port: int = 0, log_file: Path | None = None) -> None:
        super().__init__(port=port, log_file=log_file)
        self.shape = shape
        self._asked: Counter[str] = Counter()

    def answer(self, path: str, *, origin: str) -> Answer:
        self._asked[path] += 1
        return self.shape.answers(path, self._asked[path] - 1, origin)

    def found(self) -> set[str]:
        """Of what there is, what somebody has got."""
        got = {self.shape.known_as(record.path) for record in self.log if record.status == 200}
        return got & self.shape.exists


def page(title: str, inner: str, *, seed: int = 0) -> Answer:
    """With enough text of its own that no two pages say the same."""
    text = " ".join(WORDS[(seed * 7 + at * (seed % 5 + 3)) % len(WORDS)] for at in range(60))
    menu = '<nav><a href="/help">Help</a> <a href="/terms">Terms</a></nav>'
    return Answer(
        f"<!doctype html><html><head><title>{title}</title></head><body>{menu}<h1>{title}</h1>{inner}<p>{text}</p></body></html>".encode()
    )


def thing(path: str) -> Answer | None:
    """The pages that the lists are about, and those that every site has."""
    if path in ("/help", "/terms"):
        return page(path, "<p>For people.</p>", seed=len(path))
    found = re.fullmatch(r"/things/(\d+)", path)
    if found is None:
        return None
    meta = '<meta property="og:type" content="article">'
    number = int(found[1])
    told = page(f"Thing {number}", "<p>It is what it is.</p>", seed=number + 100)
    return Answer(told.body.replace(b"</head>", meta.encode() + b"</head>"))


def cards(numbers: Sequence[int]) -> str:
    return "".join(f'<li><a href="/things/{one}">Thing {one}</a></li>' for one in numbers)


def things_on(number: int) -> range:
    return range((number - 1) * EACH, number * EACH)


def listing(number: int, ways: str, *, seed: int | None = None) -> Answer:
    inner = f"<ul>{cards(things_on(number))}</ul>{ways}"
    return page(f"List {number}", inner, seed=number if seed is None else seed)


EMPTY = page("List", "<p>No results found.</p>", seed=77)
COMMON = frozenset({"/help", "/terms"})
THINGS = frozenset(f"/things/{number}" for number in range(PAGES * EACH))


def a_list(
    name: str,
    address: Callable[[int], str],
    *,
    ways: Callable[[int], str] = lambda number: "<button>More</button>",
    past: Callable[[int], Answer] = lambda number: GONE,
    start: str | None = None,
    refuse: int = 0,
    extra: int = 3,
) -> Shape:
    """A list of six pages; `address` says where each is, `ways` what leads on from it, `past` what comes after the last."""
    numbers = {address(number): number for number in range(1, 2000)}
    numbers[start or "/list"] = 1

    def answers(path: str, before: int, origin: str) -> Answer:
        number = numbers.get(path)
        if number is None:
            return thing(path) or GONE
        if number == 3 and before < refuse:
            return Answer(b"Forbidden.\n", status=403, content_type=TEXT)
        return listing(number, ways(number)) if number <= PAGES else past(number)

    lists = {start or "/list", *(address(number) for number in range(2, PAGES + 1))}
    exists = COMMON | THINGS | lists
    # robots.txt, and what is past the end.
    return Shape(name, answers, exists, most=len(exists) + 1 + extra + refuse, start=start or "/list")


def query(number: int) -> str:
    return f"/list?page={number}"


def next_link(address: Callable[[int], str], *, last: int = PAGES) -> Callable[[int], str]:
    return lambda number: f'<a rel="next" href="{address(number + 1)}">Next</a>' if number < last else ""


def numbers_of(address: Callable[[int], str]) -> Callable[[int], str]:
    """Links to the neighbours and to the last one, as pagers have them."""

    def ways(number: int) -> str:
        near = sorted({one for one in (1, number - 1, number + 1, PAGES) if 1 <= one <= PAGES and one != number})
        return '<nav class="pagination">' + " ".join(f'<a href="{address(one)}">{one}</a>' for one in near) + "</nav>"

    return ways


def sitemap_only() -> Shape:
    hidden = [f"/hidden/{number}-some-old-thing" for number in range(12)]

    def answers(path: str, before: int, origin: str) -> Answer:
        if path == "/robots.txt":
            return Answer(f"User-agent: *\nDisallow:\nSitemap: {origin}/maps/index.xml\n".encode(), content_type=TEXT)
        if path == "/maps/index.xml":
            children = [f"{origin}/maps/{number}.xml" for number in range(2)]
            return Answer(sitemap_xml("sitemapindex", "sitemap", children).encode(), content_type=XML)
        if found := re.fullmatch(r"/maps/([01])\.xml", path):
            mine = hidden[int(found[1]) :: 2]
            return Answer(sitemap_xml("urlset", "url", [origin + one for one in mine]).encode(), content_type=XML)
        if path == "/list":
            return page("Front", "<p>Nothing is linked here.</p>")
        if path in hidden:
            return page(path, "<p>Only a sitemap knows it.</p>", seed=hidden.index(path) + 3)
        return thing(path) or GONE

    exists = frozenset(["/list", *hidden]) | COMMON
    return Shape("sitemap-only section", answers, exists, most=len(exists) + 5, batch={"sitemaps": True})


def dated(name: str, *, is_soft: bool) -> Shape:
    """Stories by year and month. The front page leads only to the latest; where it is soft, what is missing says so with 200."""
    stories = {
        (year, month): [f"/news/{year}/{month:02}/story-{year}-{month}-{one}" for one in range(2)]
        for year in (2025, 2026)
        for month in range(1, 11)
    }
    missing = page("Sorry", "<p>We could not find what you were looking for. Try the search.</p>", seed=31)

    def links(paths: Sequence[str]) -> str:
        return "<ul>" + "".join(f'<li><a href="{one}">{one[-20:]}</a></li>' for one in paths) + "</ul>"

    def answers(path: str, before: int, origin: str) -> Answer:
        if path == "/list":
            return page("News", links(stories[2025, 10] + stories[2026, 10]))
        if path == "/robots.txt":
            return GONE
        if found := re.fullmatch(r"/news/(\d{4})/(\d\d)/", path):
            if mine := stories.get((int(found[1]), int(found[2]))):
                return page(path, links(mine), seed=int(found[2]) * 3 + int(found[1]))
        elif path in (known := {one for mine in stories.values() for one in mine}):
            return page(path, "<p>It happened.</p>", seed=sorted(known).index(path) + 11)
        return thing(path) or (missing if is_soft else GONE)

    exists = frozenset(one for mine in stories.values() for one in mine) | {"/list"} | COMMON
    months = 12 + 12 + 11
    # Each month is probed once and crawled once, each year probed; and a page that cannot exist.
    return Shape(name, answers, exists, most=len(exists) + 2 * months + 12, discover="archives")


def all_soft() -> Shape:
    """Every address answers 200, whatever it is."""

    def answers(path: str, before: int, origin: str) -> Answer:
        if path == "/robots.txt":
            return GONE
        if path == "/list":
            return page("News", '<a href="/news/2026/10/a-story-of-today">Today</a>')
        if path == "/news/2026/10/a-story-of-today":
            return page("Today", "<p>It happened.</p>", seed=5)
        return thing(path) or page("Oops", "<p>This page has gone to sea.</p>", seed=13)

    exists = frozenset({"/list", "/news/2026/10/a-story-of-today"}) | COMMON
    return Shape("soft 404s everywhere", answers, exists, most=40, discover="archives")


def calendar() -> Shape:
    def answers(path: str, before: int, origin: str) -> Answer:
        parts = urlsplit(path)
        if parts.path == "/calendar":
            asked = dict(parse_qsl(parts.query))
            at = int(asked.get("year", "2026")) * 12 + int(asked.get("month", "11")) - 1
            ways = "".join(
                f'<a href="/calendar?month={one % 12 + 1}&amp;year={one // 12}">{one}</a> ' for one in (at - 1, at + 1)
            )
            return page(f"Calendar {at}", ways, seed=at)
        return listing(1, '<a href="/calendar">Calendar</a>') if path == "/list" else thing(path) or GONE

    exists = COMMON | {"/list", "/calendar"} | {f"/things/{number}" for number in range(EACH)}
    return Shape("calendar trap", answers, exists, most=len(exists) + 60 + 6)


def facets() -> Shape:
    filters = {"brand": "abcdef", "color": "rgby", "price": "123", "size": "sml"}

    def answers(path: str, before: int, origin: str) -> Answer:
        parts = urlsplit(path)
        if parts.path != "/list":
            return thing(path) or GONE
        # A filter leads to the first page of what is left.
        asked = {name: value for name, value in parse_qsl(parts.query) if name in filters}
        ways = ""
        for name, values in filters.items():
            for value in values:
                wanted = "&amp;".join(f"{key}={one}" for key, one in sorted({**asked, name: value}.items()))
                ways += f'<a href="/list?{wanted}">{name} {value}</a> '
        return page("List", f"<ul>{cards(range(10))}</ul>{ways}", seed=sum(map(ord, parts.query)))

    exists = COMMON | {"/list"} | {f"/things/{number}" for number in range(10)}
    return Shape("endless facets", answers, exists, most=len(exists) + 30 + 16 + 8, batch={"scope": {"max_facets": 30}})


def sessions() -> Shape:
    turn = 0

    def answers(path: str, before: int, origin: str) -> Answer:
        nonlocal turn
        turn += 1
        token = f"{turn:032x}"
        own = path.partition("?")[0].partition(";")[0]
        ways = "".join(f'<a href="/room-{one};jsessionid={token}?PHPSESSID={token}">{one}</a> ' for one in range(4))
        if own == "/list" or own.startswith("/room-"):
            return page(own, ways, seed=sum(map(ord, own)))
        return thing(path) or GONE

    exists = COMMON | {"/list"} | {f"/room-{one}" for one in range(4)}
    return Shape("session ids", answers, frozenset(exists), most=len(exists) + 2)


def ever_longer() -> Shape:
    def answers(path: str, before: int, origin: str) -> Answer:
        if path.startswith("/list"):
            return page(path, f'<a href="{path}/more">More</a> <a href="{path}/{len(path)}">Other</a>', seed=len(path))
        return thing(path) or GONE

    # Both ways are taken at each step, until one repeats itself or is too long.
    return Shape("ever-longer paths", answers, COMMON | {"/list"}, most=200, batch={"scope": {"max_deep": 50}})


def shapes() -> list[Shape]:
    def path_page(number: int) -> str:
        return f"/list/page/{number}"

    def offset(number: int) -> str:
        return f"/list?offset={(number - 1) * EACH}"

    def clamped(ways: Callable[[int], str]) -> Callable[[int], Answer]:
        return lambda number: listing(PAGES, ways(number))

    return [
        a_list("query pages", query, ways=numbers_of(query)),
        a_list("path pages", path_page, ways=numbers_of(path_page)),
        a_list("offsets", offset, ways=next_link(offset)),
        a_list("clamping last page", query, past=clamped(lambda number: "")),
        a_list("empty last page", query, past=lambda number: EMPTY),
        a_list("404 at the end", query, ways=numbers_of(query)),
        a_list("infinite next", query, ways=next_link(query, last=10**6), past=clamped(next_link(query, last=10**6))),
        a_list("JavaScript-only next", query, start="/list?page=1"),
        a_list("JavaScript-only, path pages", path_page, extra=4),
        a_list("a block in the middle", query, ways=next_link(query), refuse=2),
        sitemap_only(),
        dated("archive by year and month", is_soft=False),
        dated("archive among soft 404s", is_soft=True),
        all_soft(),
        calendar(),
        facets(),
        sessions(),
        ever_longer(),
    ]
