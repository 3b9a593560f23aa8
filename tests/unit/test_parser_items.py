"""Items: generic pages, JSON-LD in the wild, products, prices: SPEC P2."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.parsers import Parser
from limpet.parser.parsers.jsonld import first, loads, nodes_of_type, types_of
from limpet.parser.parsers.price import decimal_text
from limpet.parser.reading import Reading, Unread, read_page

URL = "https://shop.test/p/boots"


def items(body: str, *, parser: str = "product") -> list[dict[str, Any]]:
    found = read_page(PageFetched(url=URL, parser=parser, content_type="text/html"), body.encode())
    assert isinstance(found, Reading), found
    return [orjson.loads(item) for item in found.items]


def products(*blocks: object) -> list[dict[str, Any]]:
    texts = [block if isinstance(block, str) else orjson.dumps(block).decode() for block in blocks]
    return items("".join(f'<script type="application/ld+json">{text}</script>' for text in texts))


def product(**values: object) -> dict[str, Any]:
    (item,) = products({"@type": "Product", "name": "Boots", **values})
    return item


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (19, "19"),
        (19.9, "19.9"),
        (0, "0"),
        ("19.90", "19.90"),
        ("$1,299.00", "1299.00"),
        ("1.299,00 €", "1299.00"),
        ("1 299,00 kr", "1299.00"),
        ("1\u00a0299,00", "1299.00"),
        ("1\u202f299,00", "1299.00"),
        ("CHF 1'299.50", "1299.50"),
        ("1,299", "1299"),
        ("1.299", "1.299"),
        ("12,5", "12.5"),
        ("12,99", "12.99"),
        ("1,299,000", "1299000"),
        ("1.299.000", "1299000"),
        ("1.234.567,8", "1234567.8"),
        ("Rs. 1,00,000.00", "100000.00"),
        ("Rs.1,000", "1000"),
        ("USD 25", "25"),
        ("25.", "25"),
        ("10 - 20", "10"),
        (".99", "0.99"),
        ("$.99", "0.99"),
        ("from 5 to 9", "5"),
        ("-5", None),
        (" -5.00 €", None),
        ("\u22125", None),
        (-5, None),
        (-0.5, None),
        ("٣", None),
        ("²", None),
        ("", None),
        ("call us", None),
        ("1.2.3,4,5", None),
        ("9" * 40, None),
        (10**15, None),
        (1e20, None),
        (1e-7, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        (None, None),
        ([], None),
        ({}, None),
    ],
)
def test_an_amount_is_a_plain_decimal_or_nothing(value: object, text: str | None) -> None:
    assert decimal_text(value) == text


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40) | st.floats() | st.integers())
def test_any_value_gives_a_decimal_that_can_be_stored_or_nothing(value: object) -> None:
    text = decimal_text(value)
    if text is not None:
        assert text.isascii()
        assert 0 <= Decimal(text) < 10**15


@settings(deadline=None, max_examples=100)
@given(st.decimals(min_value=0, max_value=10**9, places=2), st.sampled_from([",.", "., ", " ,", "\u00a0,", "'."]))
def test_an_amount_in_any_countrys_style_keeps_its_value(amount: Decimal, style: str) -> None:
    group, point = style[0], style[1]
    written = f"{amount:,.2f}".replace(",", "\0").replace(".", point).replace("\0", group)
    assert Decimal(decimal_text(f"{written} EUR") or "-1") == amount


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1,}', {"a": 1}),
        ('[1, 2, ]', [1, 2]),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('<!-- {"a": 1} -->', {"a": 1}),
        ('//<![CDATA[\n{"a": 1}\n//]]>', {"a": 1}),
        ('/*<![CDATA[*/{"a": 1}/*]]>*/', {"a": 1}),
        ('{"a": 1};', {"a": 1}),
        ("{'a': 1}", None),
        ("{", None),
        ("", None),
        ("[" * 100_000, None),
    ],
)  # fmt: skip
def test_json_is_mended_where_sites_break_it_and_left_out_where_they_do_not_mean_it(text: str, value: object) -> None:
    assert loads(text) == value


def test_types_are_found_however_they_are_written() -> None:
    products: list[Any] = ["Product", ["Thing", "Product"], "http://schema.org/Product", "schema:Product", "x#PRODUCT"]
    others: list[Any] = [None, 5, {}, [None, 5], "Products"]
    assert [declared for declared in products if "product" not in types_of({"@type": declared})] == []
    assert [declared for declared in others if "product" in types_of({"@type": declared})] == []


def test_nodes_come_in_the_order_of_the_page_and_what_lies_inside_a_match_is_none() -> None:
    graph = {
        "@graph": [
            {
                "@type": "WebPage",
                "mainEntity": {"@type": "Product", "n": 1, "isRelatedTo": {"@type": "Product", "n": 9}},
            },
            [[{"@type": "Product", "n": 2}]],
            {"@type": "Product", "n": 3},
        ]
    }
    found = nodes_of_type(graph, types=frozenset({"product"}))
    assert [node["n"] for node in found] == [1, 2, 3]
    many = [{"@type": "Thing"}] * 100_000 + [{"@type": "Product"}]
    assert list(nodes_of_type(many, types=frozenset({"product"}))) == []


def test_first_goes_through_lists() -> None:
    values: list[Any] = [1, [1, 2], [[1]], [], [[]], None]
    assert [first(value) for value in values] == [1, 1, 1, None, None, None]


def test_a_product_is_read_with_all_that_it_has() -> None:
    item = product(
        brand={"@type": "Brand", "name": "Acme"},
        sku="B-1",
        gtin13="4006381333931",
        image=["/1.jpg", {"@type": "ImageObject", "url": "//cdn.test/2.jpg"}, "data:x", {"contentUrl": "3.jpg"}],
        url="/p/boots?x=1",
        mpn="M 1",
        category="Shoes",
        itemCondition="https://schema.org/NewCondition",
        description="<p>For rocks &amp; reefs</p>",
        aggregateRating={"ratingValue": "4,5", "bestRating": 5, "reviewCount": "1,234"},
        offers={"price": "1.299,00", "priceCurrency": "eur", "availability": "https://schema.org/InStock"},
    )
    assert item == {
        "name": "Boots", "brand": "Acme", "sku": "B-1", "gtin": "4006381333931", "price": "1299.00", "currency": "EUR",
        "availability": "in_stock",
        "images": ["https://shop.test/1.jpg", "https://cdn.test/2.jpg", "https://shop.test/p/3.jpg"],
        "rating": "4.5", "rating_count": 1234, "url": "https://shop.test/p/boots?x=1", "source": "json-ld",
        "mpn": "M 1", "price_high": None, "list_price": None, "condition": "new", "category": "Shoes",
        "description": "For rocks & reefs", "filled": {}, "variants": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("offers", "price", "currency"),
    [
        (None, None, None),
        ([], None, None),
        ("5", None, None),
        ({"price": 5, "priceCurrency": "EUR"}, "5", "EUR"),
        ({"price": "5.50"}, "5.50", None),
        ({"price": ["7", "8"]}, "7", None),
        ({"lowPrice": "5", "highPrice": "9", "priceCurrency": "USD"}, "5", "USD"),
        ([{"price": "ask"}, {"price": 6, "priceCurrency": "GBP"}], "6", "GBP"),
        ({"priceSpecification": {"price": "3.00", "priceCurrency": "CHF"}}, "3.00", "CHF"),
        ({"priceSpecification": [{"price": 4, "priceCurrency": "SEK"}]}, "4", "SEK"),
        ({"@type": "AggregateOffer", "priceCurrency": "EUR", "offers": [{"price": 8}, {"price": 7}]}, "7", "EUR"),
        ({"@type": "AggregateOffer", "offers": {"price": 8, "priceCurrency": "DKK"}}, "8", "DKK"),
        ({"offers": {"offers": {"price": 8}}}, None, None),
        ({"price": 0, "priceCurrency": "EUR"}, "0", "EUR"),
        ({"price": -1, "priceCurrency": "EUR"}, None, "EUR"),
        ({"price": True}, None, None),
    ],
)
def test_the_price_is_the_lowest_that_an_offer_names(offers: object, price: str | None, currency: str | None) -> None:
    item = product(offers=offers)
    assert (item["price"], item["currency"]) == (price, currency)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("https://schema.org/InStock", "in_stock"),
        ("http://schema.org/OutOfStock", "out_of_stock"),
        ("InStock", "in_stock"),
        ("in stock", "in_stock"),
        ("out-of-stock", "out_of_stock"),
        ("SoldOut", "out_of_stock"),
        ("PreOrder", "pre_order"),
        ("BackOrder", "back_order"),
        ("LimitedAvailability", "limited"),
        ("Discontinued", "discontinued"),
        ("perhaps", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_availability_is_one_of_a_few_words_or_nothing(said: object, found: str | None) -> None:
    assert product(offers={"price": 1, "availability": said})["availability"] == found


def test_every_product_of_a_page_is_an_item_once_and_one_without_a_name_is_none() -> None:
    boots, hat = {"@type": "Product", "name": "Boots"}, {"@type": "Product", "name": "Hat"}
    found = products([boots, hat], {"@graph": [boots]}, "{broken", {"@type": "Product", "sku": "1"})
    assert [item["name"] for item in found] == ["Boots", "Hat"]
    assert products({"@type": "Article", "name": "x"}) == []
    assert items("<p>no data</p>") == []


def test_the_number_of_items_and_images_of_a_page_is_bounded() -> None:
    assert len(products([{"@type": "Product", "name": f"n{n}"} for n in range(600)])) == 500
    assert len(product(image=[f"/{n}.jpg" for n in range(50)])["images"]) == 20


@pytest.mark.parametrize(
    "values",
    [
        {"name": {"@value": "Boots", "@language": "en"}},
        {"name": ["Boots"]},
        {"brand": []},
        {"brand": {"name": {"name": 1}}},
        {"offers": [[{"price": 1}]]},
        {"aggregateRating": "5"},
        {"aggregateRating": {"ratingValue": "x"}},
        {"image": {"url": {"url": 1}}},
        {"url": "http://[bad"},
        {"sku": 10**15},
        {"gtin": True},
    ],
)
def test_odd_values_cost_only_their_own_field(values: dict[str, object]) -> None:
    assert product(**values)["name"] == "Boots"


def test_a_nul_and_half_a_character_are_taken_out_of_items() -> None:
    (item,) = products('{"@type":"Product","name":"a\\u0000b","sku":"x\\ud800y"}')
    assert (item["name"], item["sku"]) == ("ab", "x?y")


def test_text_about_the_nul_escape_is_text() -> None:
    (item,) = items(r"<title>The \u0000 escape, and \\u0000</title>", parser="generic")
    assert item["title"] == r"The \u0000 escape, and \\u0000"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\x00b", False),
        ("\\\x00", False),
        ("\\u0000\x00", False),
        ("\\u0000", True),
        ("\\\\u0000", True),
        ("u0000", True),
    ],
)
def test_an_item_with_a_nul_costs_its_page(text: str, kept: bool) -> None:
    found = [{"name": "plain"}, {"name": text}]
    careless = Parser(name="careless", version="1", page_type="page", extract=lambda document: found)
    page = PageFetched(url=URL, parser="careless", content_type="text/html")
    result = read_page(page, b"<p>x</p>", parsers={"careless": careless})
    if kept:
        assert isinstance(result, Reading)
        assert [orjson.loads(item) for item in result.items] == found
    else:
        assert result == Unread("ValueError: an item holds a NUL character")


def test_a_generic_page_says_what_its_head_says() -> None:
    body = """<head><title>T</title><meta name=description content=D><link rel=canonical href=/c>
        <meta property=og:image content=/i.jpg><meta property=og:secret content=x></head><h1> Big \n one </h1><h1>2</h1>"""
    assert items(body, parser="generic") == [
        {
            "title": "T",
            "description": "D",
            "canonical": "https://shop.test/c",
            "h1": "Big one",
            "opengraph": {"image": "/i.jpg"},
        }
    ]
    nothing: dict[str, Any] = {"title": None, "description": None, "canonical": None, "h1": None, "opengraph": {}}
    assert items("", parser="generic") == [nothing]
    assert items("<link rel=canonical href='http://[bad'><h1></h1>", parser="generic") == [nothing]
