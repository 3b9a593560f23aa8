"""Products however a page tells of them: references, groups, markup, head, looks: SPEC P2."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.parsers.availability import AVAILABILITY, CONDITIONS, availability_said, condition
from limpet.parser.parsers.currency import country, currency
from limpet.parser.parsers.identifiers import gtin
from limpet.parser.parsers.jsonld import loads
from limpet.parser.parsers.price import Price, price_of
from limpet.parser.reading import Reading, read_page

URL = "https://shop.test/p/boots"
FIELDS = [
    "name", "brand", "sku", "gtin", "mpn", "price", "price_high", "list_price", "currency", "availability", "condition",
    "images", "rating", "rating_count", "description", "url", "category", "source", "filled", "variants",
]  # fmt: skip


def items(body: str, *, url: str = URL) -> list[dict[str, Any]]:
    found = read_page(PageFetched(url=url, parser="product", content_type="text/html"), body.encode())
    assert isinstance(found, Reading), found
    return [orjson.loads(item) for item in found.items]


def script(*blocks: object) -> str:
    return "".join(f'<script type="application/ld+json">{orjson.dumps(block).decode()}</script>' for block in blocks)


def product(*blocks: object) -> dict[str, Any]:
    (item,) = items(script(*blocks))
    return item


def boots(**values: object) -> dict[str, Any]:
    return product({"@type": "Product", "name": "Boots", **values})


def test_p2_every_product_has_the_same_fields_whatever_it_was_read_from() -> None:
    pages = [
        script({"@type": "Product", "name": "Boots"}),
        '<div itemscope itemtype="https://schema.org/Product"><b itemprop=name>Boots</b></div>',
        '<div vocab="https://schema.org/" typeof=Product><b property=name>Boots</b></div>',
        "<meta property=og:type content=product><meta property=og:title content=Boots>",
        "<main><h1>Boots</h1><span class=price>19,90 €</span><button>Add to cart</button></main>",
    ]
    found = [items(page) for page in pages]
    assert [len(each) for each in found] == [1] * 5
    assert [list(item) for (item,) in found] == [FIELDS] * 5
    assert [item["source"] for (item,) in found] == ["json-ld", "microdata", "rdfa", "opengraph", "heuristic"]
    assert {item["name"] for (item,) in found} == {"Boots"}


# Numbers that name a product


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("4006381333931", "4006381333931"),
        ("4006381333932", None),
        ("96385074", "96385074"),
        ("036000291452", "036000291452"),
        # The same number in longer spellings.
        ("0036000291452", "036000291452"),
        ("00036000291452", "036000291452"),
        ("00000096385074", "96385074"),
        ("10012345678902", "10012345678902"),
        ("4 006381 333931", "4006381333931"),
        ("978-3-16-148410-0", "9783161484100"),
        ("ISBN 3-16-148410-X", "9783161484100"),
        ("316148410X", "9783161484100"),
        ("3161484101", None),
        ("gtin:4006381333931", "4006381333931"),
        ("urn:gtin-13:4006381333931", "4006381333931"),
        ("0000000000000", None),
        ("400638133393", None),
        ("40063813339310000", None),
        ("٤٠٠٦٣٨١٣٣٣٩٣١", None),
        ("none", None),
        ("", None),
        (None, None),
        ("9" * 100_000, None),
    ],
)
def test_p2_a_gtin_counts_with_a_right_check_digit_only_and_has_one_spelling(
    said: str | None, kept: str | None
) -> None:
    assert gtin(said) == kept


@settings(deadline=None)
@given(st.integers(1, 10**11), st.sampled_from([8, 12, 13, 14]))
def test_p2_one_wrong_digit_is_always_noticed(stem: int, size: int) -> None:
    digits = str(stem % 10 ** (size - 1) or 1).zfill(size - 1)
    check = -sum(int(digit) * (3 if place % 2 == 0 else 1) for place, digit in enumerate(reversed(digits))) % 10
    assert gtin(f"{digits}{check}") is not None
    assert gtin(f"{digits}{(check + 1) % 10}") is None


def test_p2_identifiers_are_found_on_the_product_and_on_its_offer() -> None:
    offered = boots(offers={"price": 1, "priceCurrency": "EUR", "sku": "S", "mpn": "M", "gtin13": "4006381333931"})
    assert (offered["sku"], offered["mpn"], offered["gtin"]) == ("S", "M", "4006381333931")
    assert boots(gtin="bad", gtin13="4006381333931")["gtin"] == "4006381333931"
    assert boots(isbn="3-16-148410-X")["gtin"] == "9783161484100"
    assert boots(productID="isbn:9783161484100")["gtin"] == "9783161484100"
    assert boots(productID="4006381333931")["gtin"] is None


# Prices


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("1.299,00 €", ("1299.00", None, "EUR")),
        ("€ 1.299", ("1299", None, "EUR")),
        ("1 299,50 zł", ("1299.50", None, "PLN")),
        ("CHF 1'299.50", ("1299.50", None, "CHF")),
        ("US$12.99", ("12.99", None, "USD")),
        ("$12", ("12", None, "USD")),
        ("£1,299.99", ("1299.99", None, "GBP")),
        ("¥12,000", ("12000", None, "JPY")),
        ("2.500 KD", ("2.500", None, "KWD")),
        ("R 299", ("299", None, "ZAR")),
        ("10 - 20 €", ("10", "20", "EUR")),
        ("€10.50–€20.00", ("10.50", "20.00", "EUR")),
        ("$10 to $20", ("10", "20", "USD")),
        ("from $10", ("10", None, "USD")),
        ("20 - 10 €", ("20", None, "EUR")),
        ("- $44.99", ("44.99", None, "USD")),
        ("Free", ("0", None, None)),
        ("-5 €", None),
        ("call us", None),
        ("", None),
        ("9" * 1_000_000, None),
        ("1," * 1_000_000, None),
    ],
)
def test_p2_a_price_is_read_from_a_line_for_people(text: str, price: tuple[str, str | None, str | None] | None) -> None:
    begun = time.thread_time()
    found = price_of(text)
    assert time.thread_time() - begun < 0.5
    assert found == (Price(*price) if price else None)


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="0123456789.,-– €$kr to'RsCHF", max_size=120))
def test_p2_any_line_gives_a_price_that_can_be_stored_or_none(text: str) -> None:
    found = price_of(text)
    if found is not None:
        assert all(sign in "0123456789." for sign in found.low)
        assert len(found.low) <= 22
        assert found.high is None or float(found.high) > float(found.low)


@pytest.mark.parametrize(
    ("language", "url", "sign", "code"),
    [
        ("en-US", "https://shop.test/", "$", "USD"),
        ("en-CA", "https://shop.test/", "$", "CAD"),
        ("en_AU", "https://shop.test/", "$", "AUD"),
        ("en", "https://shop.com.au/", "$", "AUD"),
        ("", "https://shop.test/", "$", "USD"),
        ("sv", "https://shop.test/", "kr", "SEK"),
        ("nb", "https://shop.test/", "kr", "NOK"),
        ("", "https://shop.dk/x", "kr.", "DKK"),
        ("en", "https://shop.test/", "kr", None),
        ("zh-Hans-CN", "https://shop.test/", "¥", "CNY"),
        ("ja", "https://shop.test/", "¥", "JPY"),
        ("", "", "eur", "EUR"),
        ("", "", "XXL", None),
        ("x" * 100_000, "https://" + "a." * 100_000, "$", "USD"),
    ],
)
def test_p2_a_sign_that_countries_share_is_told_by_where_the_page_is_at_home(
    language: str, url: str, sign: str, code: str | None
) -> None:
    assert currency(sign, country=country(language=language, url=url)) == code


@pytest.mark.parametrize(
    ("offers", "told"),
    [
        ({"lowPrice": 5, "highPrice": "9", "priceCurrency": "EUR"}, ("5", "9", None, "EUR")),
        ({"lowPrice": "5", "highPrice": "5", "priceCurrency": "EUR"}, ("5", None, None, "EUR")),
        ([{"price": 9, "priceCurrency": "EUR"}, {"price": 5, "priceCurrency": "EUR"}], ("5", "9", None, "EUR")),
        ([{"price": 9, "priceCurrency": "EUR"}, {"price": 5, "priceCurrency": "USD"}], ("9", None, None, "EUR")),
        ({"lowPrice": 5, "priceCurrency": "EUR", "offers": [{"price": 6}, {"price": 7}]}, ("5", None, None, "EUR")),
        ([[{"price": 9, "priceCurrency": "EUR"}]], ("9", None, None, "EUR")),
        ({"price": "19,90 €"}, ("19.90", None, None, "EUR")),
        ({"price": "$10 - $20"}, ("10", "20", None, "USD")),
        ({"price": "19.90", "priceCurrency": "€"}, ("19.90", None, None, "EUR")),
        ({"price": "19.90", "priceCurrency": "moon"}, ("19.90", None, None, None)),
        (
            {"price": 8, "priceCurrency": "EUR", "priceSpecification": {"priceType": "https://schema.org/ListPrice", "price": 10}},
            ("8", None, "10", "EUR"),
        ),
        (
            {"priceSpecification": [{"price": 8, "priceCurrency": "EUR"}, {"priceType": "StrikethroughPrice", "price": 9}]},
            ("8", None, "9", "EUR"),
        ),
        ({"price": 8, "priceCurrency": "EUR", "priceSpecification": {"priceType": "SRP", "price": 7}}, ("8", None, None, "EUR")),
        ({"priceSpecification": {"minPrice": 3, "maxPrice": 4, "priceCurrency": "EUR"}}, ("3", "4", None, "EUR")),
    ],
)  # fmt: skip
def test_p2_of_all_offers_come_a_price_a_range_and_what_it_cost_before(
    offers: object, told: tuple[str | None, ...]
) -> None:
    item = boots(offers=offers)
    assert (item["price"], item["price_high"], item["list_price"], item["currency"]) == told


def test_p2_a_bare_sign_is_the_money_of_the_page() -> None:
    page = script({"@type": "Product", "name": "Boots", "offers": {"price": "$10"}})
    assert items(page)[0]["currency"] == "USD"
    assert items(f'<html lang="en-CA">{page}')[0]["currency"] == "CAD"
    assert items(page, url="https://boots.co.nz/x")[0]["currency"] == "NZD"


def test_p2_the_best_of_all_offers_tells_whether_it_can_be_bought() -> None:
    item = boots(offers=[{"price": 1, "availability": "OutOfStock"}, {"price": 2, "availability": "InStock"}])
    assert item["availability"] == "in_stock"


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("In stock, ships today", "in_stock"),
        ("Sofort lieferbar", "in_stock"),
        ("En stock", "in_stock"),
        ("Currently out of stock", "out_of_stock"),
        ("Nicht auf Lager", "out_of_stock"),
        ("Unavailable", "out_of_stock"),
        ("Only 3 left", "limited"),
        ("Pre-order now", "pre_order"),
        ("Stock photo", None),
        ("", None),
    ],
)
def test_p2_what_a_page_tells_people_of_its_stock_is_one_of_a_few_words(said: str, state: str | None) -> None:
    assert availability_said(said) == state
    assert state is None or state in AVAILABILITY


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("https://schema.org/UsedCondition", "used"),
        ("new", "new"),
        ("Refurbished", "refurbished"),
        ("odd", None),
        ("", None),
    ],
)
def test_p2_condition_is_one_of_a_few_words_or_nothing(said: str, kept: str | None) -> None:
    assert condition(said) == kept
    assert boots(itemCondition=said)["condition"] == boots(offers={"itemCondition": said})["condition"] == kept
    assert kept is None or kept in CONDITIONS


@pytest.mark.parametrize(
    ("rating", "told"),
    [
        ({"ratingValue": 4.5, "reviewCount": 12}, ("4.5", 12)),
        ({"ratingValue": "9", "bestRating": "10", "ratingCount": "7"}, ("4.5", 7)),
        ({"ratingValue": 80, "bestRating": 100, "worstRating": 0}, ("4", None)),
        ({"ratingValue": "87%"}, ("4.35", None)),
        ({"ratingValue": "4/5"}, ("4", None)),
        ({"ratingValue": 3, "bestRating": 1, "worstRating": 5}, ("3", None)),
        ({"ratingValue": 9}, (None, None)),
        ({"ratingValue": 0.5, "worstRating": 1}, (None, None)),
        ({"ratingValue": 4, "bestRating": 0}, (None, None)),
        ({"ratingCount": 10**14}, (None, None)),
        ({"ratingValue": "many"}, (None, None)),
    ],
)
def test_p2_a_rating_is_out_of_five_whatever_the_scale(
    rating: dict[str, Any], told: tuple[str | None, int | None]
) -> None:
    item = boots(aggregateRating=rating)
    assert (item["rating"], item["rating_count"]) == told


# JSON-LD: references and groups


def test_p2_references_are_followed_through_all_scripts_of_the_page() -> None:
    item = product(
        {"@graph": [{"@type": "Product", "@id": "#p", "name": "Boots", "brand": {"@id": "#b"}, "offers": [{"@id": "#o"}],
                     "aggregateRating": {"@id": "#r"}, "image": {"@id": "#i"}}]},
        {"@graph": [{"@id": "#b", "name": "Acme"}, {"@id": "#o", "price": "5", "priceCurrency": "EUR"},
                    {"@id": "#i", "url": "/i.jpg"}, {"@id": "#r", "ratingValue": 4}]},
    )  # fmt: skip
    assert (item["brand"], item["price"], item["rating"]) == ("Acme", "5", "4")
    assert item["images"] == ["https://shop.test/i.jpg"]


def test_p2_a_reference_to_nothing_or_to_itself_ends() -> None:
    item = product({"@type": "Product", "@id": "#p", "name": "Boots", "brand": {"@id": "#x"}, "offers": {"@id": "#p"},
                    "hasVariant": {"@id": "#p"}, "isVariantOf": {"@id": "#p"}},
                   {"@type": "Product", "name": "Boots"})  # fmt: skip
    assert (item["name"], item["brand"], item["price"]) == ("Boots", None, None)


def group(**values: object) -> dict[str, Any]:
    return {"@type": "ProductGroup", "name": "Boots", "brand": "Acme", "productGroupID": "B", **values}


def test_p2_a_group_is_one_item_with_its_variants_and_the_range_of_their_prices() -> None:
    variants = [
        {"@type": "Product", "name": f"Boots {size}", "sku": f"B-{size}", "size": size, "image": f"/{size}.jpg",
         "offers": {"price": price, "priceCurrency": "EUR", "availability": state}}
        for size, price, state in (("41", "90", "OutOfStock"), ("42", "80.50", "InStock"), ("43", 95, "InStock"))
    ]  # fmt: skip
    item = product(group(hasVariant=variants))
    assert (item["name"], item["price"], item["price_high"], item["currency"]) == ("Boots", "80.50", "95", "EUR")
    assert item["availability"] == "in_stock"
    assert item["images"] == ["https://shop.test/41.jpg"]
    assert [(one["sku"], one["price"], one["availability"], one["size"]) for one in item["variants"]] == [
        ("B-41", "90", "out_of_stock", "41"), ("B-42", "80.50", "in_stock", "42"), ("B-43", "95", "in_stock", "43"),
    ]  # fmt: skip


def test_p2_variants_beside_their_group_are_told_once_and_one_alone_takes_after_it() -> None:
    beside = product({"@graph": [group(hasVariant=[{"@id": "#v"}]),
                                 {"@type": "Product", "@id": "#v", "name": "Red", "sku": "R"}]})  # fmt: skip
    assert (beside["name"], [one["sku"] for one in beside["variants"]]) == ("Boots", ["R"])
    alone = product({"@type": "Product", "sku": "R", "isVariantOf": group(image="/b.jpg")})
    assert (alone["name"], alone["brand"], alone["sku"]) == ("Boots", "Acme", "R")
    assert alone["images"] == ["https://shop.test/b.jpg"]


def test_p2_the_category_is_the_products_own_or_the_trail_that_leads_to_it() -> None:
    trail = {"@type": "BreadcrumbList", "itemListElement": [
        {"position": 2, "item": {"@id": "/shoes", "name": "Shoes"}}, {"position": 1, "name": "Home"}, {"position": 3, "name": "Boots"},
    ]}  # fmt: skip
    assert boots(category=["Shoes", {"name": "Winter"}])["category"] == "Shoes > Winter"
    assert product({"@type": "Product", "name": "Boots"}, trail)["category"] == "Home > Shoes"
    assert product({"@type": "Product", "name": "Boots", "category": "Own"}, trail)["category"] == "Own"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "x" /* y */, // z\n "b": 1}', {"a": "x", "b": 1}),
        ('{"a": "http://x/ /* no */ ,}"}', {"a": "http://x/ /* no */ ,}"}),
        ("{&quot;a&quot;: &quot;b&quot;}", {"a": "b"}),
        ('{"a": "tab\tand\x01"}', {"a": "tab\tand\x01"}),
        ('{"a": "it\\\'s \\x26"}', {"a": "it's &"}),
        ('{"a": "say "yes" now", "b": 1}', {"a": 'say "yes" now', "b": 1}),
        ('{"a": 1}}', {"a": 1}),
        ('{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}]),
        ('{"a": 1};{"b": 2},', [{"a": 1}, {"b": 2}]),
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}),
        ('{"a": 1 /* never closed', None),
    ],
)
def test_p2_json_that_sites_break_is_mended(text: str, value: object) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    "piece",
    ['{"a":', "[", '"', '\\"', '"\\', "/*", "//", ",", ", ", "<!--", '{"@id":"#a","x":', "&quot;", '"a"b"', "}", "1" * 50],
)  # fmt: skip
def test_p2_broken_json_is_never_read_over_and_over(piece: str) -> None:
    begun = time.thread_time()
    loads("{" + piece * (200_000 // len(piece)))
    assert time.thread_time() - begun < 1.5


# Markup in the page


MICRODATA = """
<html lang=de><body itemscope itemtype="https://schema.org/WebPage">
<ol itemprop=breadcrumb itemscope itemtype="https://schema.org/BreadcrumbList">
  <li itemprop=itemListElement itemscope itemtype="https://schema.org/ListItem"><a itemprop=item href=/s><b itemprop=name>Schuhe</b></a>
    <meta itemprop=position content=1></li></ol>
<div itemprop=mainEntity itemscope itemtype="http://schema.org/Product" itemref="more gone more">
  <h1 itemprop=name>Stiefel <i>rot</i></h1><script>var x = "no"</script>
  <a itemprop=brand href=/acme>Acme</a><img itemprop=image src="/1.jpg"><img itemprop=image data-src=2.jpg>
  <meta itemprop=gtin13 content=4006381333931>
  <div itemprop=offers itemscope itemtype="http://schema.org/Offer">
    <span itemprop=price>1.299,00</span><meta itemprop=priceCurrency content=EUR>
    <link itemprop=availability href="http://schema.org/InStock"><link itemprop=itemCondition href="http://schema.org/NewCondition">
    <div itemprop=seller itemscope itemtype="http://schema.org/Organization"><b itemprop=name>Somebody</b></div>
  </div>
  <div itemprop=aggregateRating itemscope itemtype="http://schema.org/AggregateRating">
    <data itemprop=ratingValue value=9>neun</data> von <b itemprop=bestRating>10</b>, <b itemprop=reviewCount>1.234</b></div>
  <div itemprop=isRelatedTo itemscope itemtype="http://schema.org/Product"><b itemprop=name>Socken</b></div>
  <div itemscope itemtype="http://schema.org/Offer"><b itemprop=name>Not of the product</b></div>
</div><p id=more><span itemprop=sku>S-1</span></p>"""


def test_p2_microdata_gives_all_that_json_ld_would() -> None:
    (item,) = items(MICRODATA)
    assert item == dict.fromkeys(FIELDS) | {
        "name": "Stiefel rot", "brand": "Acme", "sku": "S-1", "gtin": "4006381333931", "price": "1299.00", "currency": "EUR",
        "availability": "in_stock", "condition": "new", "rating": "4.5", "rating_count": 1234, "category": "Schuhe",
        "images": ["https://shop.test/1.jpg", "https://shop.test/p/2.jpg"], "source": "microdata", "filled": {}, "variants": [],
    }  # fmt: skip


def test_p2_rdfa_gives_all_that_json_ld_would() -> None:
    (item,) = items("""<div vocab="https://schema.org/" typeof="Product" resource="#p">
        <h1 property="name">Boots</h1><a property="url" href="/p/1">x</a><img property="image" src="/1.jpg">
        <span property="brand" typeof="Brand"><b property="name">Acme</b></span>
        <div property="schema:offers" typeof="schema:Offer"><b property="price" content="12.50">12,50 €</b>
          <b property="priceCurrency">EUR</b><link property="availability" href="https://schema.org/SoldOut"></div>
        <div rel="aggregateRating"><div property="aggregateRating" typeof="AggregateRating"><b property="ratingValue">4</b></div></div>
        <div typeof="Person"><b property="name">Nobody</b></div></div>""")
    assert (item["name"], item["brand"], item["price"], item["currency"]) == ("Boots", "Acme", "12.50", "EUR")
    assert (item["availability"], item["rating"], item["source"]) == ("out_of_stock", "4", "rdfa")
    assert (item["url"], item["images"]) == ("https://shop.test/p/1", ["https://shop.test/1.jpg"])


def test_p2_several_products_in_markup_are_several_items() -> None:
    card = '<li itemscope itemtype="https://schema.org/Product"><b itemprop=name>n{0}</b></li>'
    assert [item["name"] for item in items("".join(card.format(n) for n in range(4)))] == ["n0", "n1", "n2", "n3"]


def test_p2_the_head_tells_of_a_product_for_who_shares_it() -> None:
    (item,) = items("""<html lang=en-GB><meta property=og:type content=product><meta property=og:title content="Boots">
        <meta property="product:price:amount" content="20.00"><meta property="product:price:currency" content="gbp">
        <meta property="product:sale_price:amount" content="15.00"><meta property="product:availability" content="in stock">
        <meta property="product:brand" content="Acme"><meta property="product:condition" content="new">
        <meta property="product:retailer_item_id" content="S-1"><meta property="product:ean" content="4006381333931">
        <meta property=og:image content=/1.jpg><meta property=og:image content=/2.jpg><meta property=og:url content=/p/1>""")
    assert (item["price"], item["list_price"], item["currency"]) == ("15.00", "20.00", "GBP")
    assert (item["brand"], item["sku"], item["gtin"], item["condition"]) == ("Acme", "S-1", "4006381333931", "new")
    assert (item["availability"], item["source"], item["url"]) == ("in_stock", "opengraph", "https://shop.test/p/1")
    assert item["images"] == ["https://shop.test/1.jpg", "https://shop.test/2.jpg"]
    assert items("<meta property=og:type content=article><meta property=og:title content=Boots>") == []


def test_p2_a_page_that_says_nothing_for_machines_is_read_as_people_see_it() -> None:
    (item,) = items("""<html lang=de><head><meta name=description content="Gute Stiefel"></head>
        <div class=breadcrumbs><a href=/>Start</a> <a href=/s>Schuhe</a></div>
        <div class=product><img src=/1.jpg><h1>Stiefel</h1><span class=old-price>129,00 €</span><span class=price>99,00 €</span>
        <p class=sku>Art.-Nr.: S-1</p><p class=stock>Sofort lieferbar</p><p class=brand>Acme</p><button>In den Warenkorb</button></div>
        <ul class=related><li><a href=/2>Socken <span class=price>5,00 €</span></a></li></ul>""")
    assert (item["name"], item["price"], item["list_price"], item["currency"]) == ("Stiefel", "99.00", "129.00", "EUR")
    assert (item["brand"], item["availability"], item["category"]) == ("Acme", "in_stock", "Start > Schuhe")
    assert (item["description"], item["source"], item["sku"]) == ("Gute Stiefel", "heuristic", "S-1")
    assert item["images"] == ["https://shop.test/1.jpg"]


@pytest.mark.parametrize(
    "page",
    [
        "<h1>News</h1><p>It costs 5 €.</p>",
        "<h1>Boots</h1><span class=price>5 €</span>",
        "<h1>Boots</h1><button>Add to cart</button>",
        "<h1>Shoes</h1><ul><li><a href=/1>a <b class=price>5 €</b></a></li></ul><button>Add to cart</button>",
        "<span class=price>5 €</span><button>Add to cart</button>",
    ],
)
def test_p2_a_page_is_not_taken_for_a_product_without_name_price_and_a_way_to_buy(page: str) -> None:
    assert items(page) == []


def test_p2_what_a_source_lacks_the_next_one_fills_and_the_item_says_which() -> None:
    head = "<meta property=product:price:amount content=5><meta property=product:price:currency content=EUR>"
    (item,) = items(script({"@type": "Product", "name": "Boots"}) + head)
    assert (item["source"], item["price"], item["currency"]) == ("json-ld", "5", "EUR")
    assert item["filled"] == {"price": "opengraph"}
    (whole,) = items(
        script({"@type": "Product", "name": "Boots", "offers": {"price": 7, "priceCurrency": "USD"}}) + head
    )
    assert (whole["price"], whole["filled"]) == ("7", {})


@pytest.mark.parametrize(
    "body",
    [
        '<div itemscope itemtype="x/Product">' + "<b itemprop=name>" * 10_000,
        '<div itemprop=a itemscope itemtype="x/Product">' * 10_000,
        '<div itemscope itemtype="x/Product" itemref="a"><p id=a itemscope itemprop=b itemref="a">' * 3_000,
        '<div itemscope itemtype="x/Product" itemref="' + "a " * 100_000 + '"><p id=a>',
        '<div typeof=Product property=offers>' * 10_000,
        '<div itemscope itemtype="x/Product"><b itemprop=name>x</b>' + "<b itemprop=image>y</b>" * 30_000,
        '<p itemscope itemtype="' + "x/Product " * 100_000 + '">',
        "<h1>x</h1><button>buy now</button>" + "<span class=price>1 €</span>" * 50_000,
        "<h1>x</h1><button>buy now</button><div>" * 3_000 + "<b class=price>1" + "0" * 100_000,
        "<button class=cart>" * 10_000 + "<h1>x",
        "<meta property=og:image content=x>" * 15_000 + "<meta property=og:type content=product>",
        '<meta property=product:price:amount content="' + "9" * 1_000_000 + '">',
        script([{"@id": "#a", "@type": "Product", "name": "x", "hasVariant": [{"@id": "#a"}] * 3_000}] * 100),
        script({"@type": "Product", "name": "x", "offers": [{"offers": [{"price": "1 - 2 x"}] * 300}] * 300}),
        script({"@type": "Product", "name": "x", "image": ["y" * 3_000] * 5_000}),
        script({"@type": "Product", "name": "&lt;" * 500_000, "description": "<b " * 6_000}),
        script({"@type": "Product", "name": "x", "offers": {"price": 10**15, "lowPrice": "1e999999999"}}),
    ],
    ids=range(17),
)  # fmt: skip
def test_p2_hostile_products_cost_a_moment_and_stay_small(body: str) -> None:
    begun = time.thread_time()
    page = PageFetched(url=URL, parser="product", content_type="text/html")
    found = read_page(page, body.encode())
    assert time.thread_time() - begun < 2.0
    assert isinstance(found, Reading)
    assert sum(map(len, found.items)) < 1_000_000
