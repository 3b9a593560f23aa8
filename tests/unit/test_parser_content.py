"""Articles, listings and JSON bodies: SPEC P2, P5."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.parsers import jsonbody
from limpet.parser.reading import Reading, Unread, read_page

URL = "https://shop.test/list/"
PARAGRAPH = "The tide went out that morning and left the whole of the reef dry for the first time in years. "


def read(body: str | bytes, *, parser: str, content_type: str = "text/html") -> Reading | Unread:
    content = body.encode() if isinstance(body, str) else body
    return read_page(PageFetched(url=URL, parser=parser, content_type=content_type), content)


def items(body: str | bytes, *, parser: str, content_type: str = "text/html") -> list[dict[str, Any]]:
    found = read(body, parser=parser, content_type=content_type)
    assert isinstance(found, Reading), found
    return [orjson.loads(item) for item in found.items]


def script(block: object) -> str:
    return f'<script type="application/ld+json">{orjson.dumps(block).decode()}</script>'


def article_page(*, head: str = "", byline: str = "") -> str:
    text = "".join(f"<p>{number}. {PARAGRAPH * 4}</p>" for number in range(5))
    menu = "".join(f"<a href=/{n}>menu</a> " for n in range(9))
    return f"<html lang=en-GB><head><title>The reef</title>{head}</head><body><nav>{menu}</nav><article><h1>The reef</h1>{byline}{text}</article></body>"


def test_p2_an_article_tells_of_itself_first_and_its_text_comes_from_the_page() -> None:
    said = {
        "@type": ["NewsArticle"], "headline": "Low tide", "author": [{"name": "Ann"}, "Bo", {"name": "Ann"}],
        "datePublished": "2024-03-01T08:00:00Z", "dateModified": "2024-3-2", "description": "A <b>dry</b> reef",
        "image": {"url": "/reef.jpg"}, "inLanguage": "en-US", "url": "/reef",
    }  # fmt: skip
    (item,) = items(article_page(head=script({"@graph": [said]})), parser="article")
    text = item.pop("text")
    assert item == {
        "title": "Low tide", "author": "Ann, Bo", "published": "2024-03-01T08:00:00+00:00", "modified": "2024-03-02",
        "language": "en", "summary": "A dry reef", "images": ["https://shop.test/reef.jpg"], "url": "https://shop.test/reef",
        "source": "json-ld",
    }  # fmt: skip
    assert text.count(PARAGRAPH.strip()) == 20
    assert "menu" not in text


def test_p2_an_article_that_says_nothing_is_read_from_its_head_and_its_page() -> None:
    head = """<meta property=article:published_time content=2024-03-01><meta property=og:title content=Reef>
        <meta property=article:author content=Ann><meta property=og:image content=/i.jpg><link rel=canonical href=/c>"""
    (item,) = items(article_page(head=head), parser="article")
    assert (item["title"], item["published"], item["author"]) == ("Reef", "2024-03-01", "Ann")
    assert (item["language"], item["images"], item["url"]) == ("en", ["https://shop.test/i.jpg"], "https://shop.test/c")
    assert (item["source"], item["modified"]) == ("heuristic", None)
    assert items("<p>short</p>", parser="article") == []


def test_p2_the_page_type_of_an_article_is_article() -> None:
    found = read(article_page(), parser="article")
    assert isinstance(found, Reading)
    assert found.page_type == "article"


def card(number: int, *, price: str = "", image: bool = True) -> str:
    picture = f"<img src=/{number}.jpg alt=x>" if image else ""
    return f'<li class="card c{number}"><a href=/p/{number}>{picture}</a><h3><a href=/p/{number}>Thing {number}</a></h3>{price}</li>'


MENU = "<nav><ul>" + "".join(f"<li><a href=/m{n}>Menu {n}</a></li>" for n in range(30)) + "</ul></nav>"


def test_p2_cards_that_repeat_are_a_listing_and_the_menu_is_not() -> None:
    cards = "".join(card(number, price=f"<span class=price>{number}9,90 €</span>") for number in range(1, 7))
    found = items(f"{MENU}<ul>{cards}</ul>", parser="listing")
    assert [item["url"] for item in found] == [f"https://shop.test/p/{number}" for number in range(1, 7)]
    assert found[0] == {
        "name": "Thing 1", "url": "https://shop.test/p/1", "price": "19.90", "price_high": None, "currency": "EUR",
        "image": "https://shop.test/1.jpg", "position": 1, "source": "heuristic",
    }  # fmt: skip


def test_p2_cards_need_neither_price_nor_picture_and_a_bare_amount_is_a_price() -> None:
    plain = "".join(
        f"<article><h2><a href=/n/{n}>A story of some length, number {n}</a></h2><p>And more.</p></article>"
        for n in range(5)
    )
    assert [item["name"][-1] for item in items(f"{MENU}<main>{plain}</main>", parser="listing")] == list("01234")
    priced = "".join(card(number, price="<b>12.50 EUR</b>") for number in range(4))
    assert {(item["price"], item["currency"]) for item in items(f"<ul>{priced}</ul>", parser="listing")} == {
        ("12.50", "EUR")
    }
    assert items(card(1) + card(2), parser="listing") == []
    assert items("<p>nothing</p>", parser="listing") == []


def test_p2_a_list_that_a_page_declares_wins_over_what_it_shows() -> None:
    cards = "".join(card(number) for number in range(6))
    listed = {"@type": "ItemList", "itemListElement": [
        {"@type": "ListItem", "position": 1, "item": {"@type": "Product", "name": "One", "url": "/1", "image": "/1.jpg",
                                                     "offers": {"price": "5", "priceCurrency": "EUR"}}},
        {"@type": "ListItem", "position": 2, "url": "/2", "name": "Two"},
        {"@type": "ListItem", "position": 3, "item": "https://shop.test/3"},
        {"@type": "ListItem", "position": 4, "url": "/2"}, 7, {},
    ]}  # fmt: skip
    found = items(script(listed) + f"<ul>{cards}</ul>", parser="listing")
    assert [(item["name"], item["url"], item["price"], item["position"]) for item in found] == [
        ("One", "https://shop.test/1", "5", 1), ("Two", "https://shop.test/2", None, 2), (None, "https://shop.test/3", None, 3),
    ]  # fmt: skip
    assert {item["source"] for item in found} == {"json-ld"}


@pytest.mark.parametrize(
    "body",
    [
        "<ul>" + "<li><a href=/x>x</a>" * 15_000,
        "<div>" * 5_000 + "<a href=/x>x</a>" * 5_000,
        "".join(f"<div class=c{n}><a href=/{n}>t</a></div>" for n in range(20_000)),
        "<ul>" + "".join(f"<li><a href=/{n}>{'x' * 5_000}</a></li>" for n in range(1_000)),
        "<table>" + "<tr><td><a href=/1>1<td><b>2" * 3_000,
        script({"@type": "ItemList", "itemListElement": [{"url": f"/{n}"} for n in range(50_000)]}),
    ],
    ids=range(6),
)
def test_p2_hostile_listings_cost_a_moment_and_are_bounded(body: str) -> None:
    begun = time.thread_time()
    found = read(body, parser="listing")
    assert time.thread_time() - begun < 3.0
    assert isinstance(found, Reading)
    assert len(found.items) <= 501


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('{"data": {"results": [{"a": 1}, {"a": 2}]}, "links": [{"b": 1}]}', [{"a": 1}, {"a": 2}]),
        ('{"one": [{"a": 1}], "two": [{"b": 1}]}', [{"a": 1}]),
        ('{"pages": [[{"a": 1}], [{"b": 1}, {"b": 2}]]}', [{"b": 1}, {"b": 2}]),
        ('{"items": [{"tags": [{"t": 1}, {"t": 2}]}]}', [{"tags": [{"t": 1}, {"t": 2}]}]),
        ('[1, "x", {"a": 1}, null]', [{"a": 1}]),
        ('{"a": 1}', [{"a": 1}]),
        ('\ufeff{"a": NaN, "b": Infinity}', [{"a": None, "b": None}]),
        ('{"a": 1}\n{"a": 2}\n\n', [{"a": 1}, {"a": 2}]),
        ('{"a": "x\\u0000y", "b\\u0000": "\\ud800"}', [{"a": "xy", "b": "?"}]),
        ('{"a": 1' + "0" * 5_000 + "}", [{"a": None}]),
        ("[]", []),
        ("{}", []),
        ("null", []),
        ("5", []),
    ],
)
def test_p2_the_largest_list_of_objects_in_an_answer_is_its_items(body: str, found: list[object]) -> None:
    assert items(body, parser="json", content_type="application/json") == found
    assert items(body.encode("utf-16"), parser="json", content_type="application/vnd.shop+json") == found


def test_p2_what_is_no_json_is_said_and_other_types_are_files() -> None:
    unread = read("<p>no", parser="json", content_type="application/json")
    assert isinstance(unread, Unread)
    assert "no JSON" in unread.error
    other = read("%PDF", parser="json", content_type="application/pdf")
    assert isinstance(other, Reading)
    assert other.page_type == "file"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"[" + b",".join(b'{"a": 1}' for _ in range(30_000)) + b"]",
        b'[{"a": "' + b"x" * 1_000_000 + b'"}]',
        b"[" + b"9" * 5_000_000 + b"]",
        b"{" * 100 + b"\n{" * 100_000,
    ],
    ids=range(7),
)
def test_p2_hostile_json_costs_a_moment_and_is_bounded(body: bytes) -> None:
    begun = time.thread_time()
    found = read(body, parser="json", content_type="application/json")
    assert time.thread_time() - begun < 3.0
    assert isinstance(found, Unread) or len(found.items) <= jsonbody.MAX_ITEMS
    assert isinstance(found, Unread) or all(len(item) <= jsonbody.MAX_ITEM_BYTES for item in found.items)
