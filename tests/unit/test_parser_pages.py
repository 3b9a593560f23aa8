"""Pages as they come: encodings, links, heads and what is hostile in them."""

from __future__ import annotations

import codecs
import time
from urllib.parse import urljoin

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind
from limpet.parser.charset import html_source
from limpet.parser.document import read_document
from limpet.parser.links import MAX_LINKS, MAX_URL, PART_BYTES, PART_LINKS, Base, absolute, kind_of, split
from limpet.parser.pagefacts import Head, clean, page_type, read_head
from limpet.parser.reading import Reading, Unread, read_page
from limpet.scheduler.canonical import canonical

URL = "https://shop.test/a/b?x=1"
PAGINATION, ARCHIVE = LinkKind.LINK_KIND_PAGINATION, LinkKind.LINK_KIND_ARCHIVE
ITEM, OTHER = LinkKind.LINK_KIND_ITEM, LinkKind.LINK_KIND_OTHER


def read(body: bytes, **values: str) -> Reading | Unread:
    page = PageFetched(url=URL, follow=True, **{"parser": "generic", "content_type": "text/html", **values})  # type: ignore[arg-type]
    return read_page(page, body)


def title(body: bytes, *, charset: str = "") -> str:
    return read_document(body, url=URL, charset=charset).head.title


@pytest.mark.parametrize(
    ("body", "charset", "found"),
    [
        ("<title>Café</title>".encode(), "", "Café"),
        ("<title>Café</title>".encode(), "utf-8", "Café"),
        ("<title>Café</title>".encode("latin-1"), "iso-8859-1", "Café"),
        ("<title>Café</title>".encode("latin-1"), "ISO-8859-1", "Café"),
        ("<title>Café €</title>".encode("cp1252"), "", "Café €"),
        ("<title>Привет</title>".encode("koi8-r"), "koi8-r", "Привет"),
        ("<title>日本</title>".encode("shift_jis"), "Shift_JIS", "日本"),
        ("<title>中文</title>".encode("gb18030"), "gb2312", "中文"),
        ("<meta charset=windows-1251><title>Привет</title>".encode("cp1251"), "", "Привет"),
        ('<meta http-equiv="x" content="text/html; charset=euc-kr"><title>한국</title>'.encode("euc-kr"), "", "한국"),
        # The header wins over the page, a byte order mark over both.
        ("<meta charset=windows-1251><title>Café</title>".encode(), "utf-8", "Café"),
        (codecs.BOM_UTF8 + "<title>Café</title>".encode(), "windows-1251", "Café"),
        (codecs.BOM_UTF16_LE + "<title>Café</title>".encode("utf-16-le"), "utf-8", "Café"),
        (codecs.BOM_UTF16_BE + "<title>Café</title>".encode("utf-16-be"), "", "Café"),
        # A name nobody knows is not believed; nor is a page that says UTF-16 in single bytes.
        ("<title>Café</title>".encode(), "klingon", "Café"),
        ("<meta charset=klingon><title>Café</title>".encode(), "", "Café"),
        ("<meta charset=utf-16><title>Café</title>".encode(), "", "Café"),
    ],
)
def test_a_page_is_read_in_its_own_encoding(body: bytes, charset: str, found: str) -> None:
    assert title(body, charset=charset) == found


def test_bytes_that_are_not_what_was_declared_cost_only_themselves() -> None:
    found = read(b"<title>caf\xe9 ok</title><a href='/caf\xe9'>x</a><h1>\xff\xfe</h1>", charset="utf-8")
    assert isinstance(found, Reading)
    assert found.title.startswith("caf")
    assert found.title.endswith(" ok")


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=200), st.sampled_from(["", "utf-8", "utf-16", "gbk", "iso-2022-jp", "big5", "x"]))
@example(b"<meta charset=iso-2022-jp>\x1b$B", "")
def test_any_bytes_in_any_encoding_are_read_without_trouble(body: bytes, charset: str) -> None:
    html_source(body, charset=charset)
    assert isinstance(read(body, charset=charset), (Reading, Unread))


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("https://other.test/x", "https://other.test/x"),
        ("HTTP://Other.test/X", "http://Other.test/X"),
        ("HTTPS://other.test/", "https://other.test/"),
        ("//cdn.test/x", "https://cdn.test/x"),
        ("/root", "https://shop.test/root"),
        ("child", "https://shop.test/a/child"),
        ("./child", "https://shop.test/a/child"),
        ("../up", "https://shop.test/up"),
        ("../../../up", "https://shop.test/up"),
        ("x/../y", "https://shop.test/a/y"),
        ("?q=2", "https://shop.test/a/b?q=2"),
        ("x/y:z", "https://shop.test/a/x/y:z"),
        # What browsers forgive.
        ("  /padded\n", "https://shop.test/padded"),
        ("/bro\nken", "https://shop.test/broken"),
        ("/my file.html", "https://shop.test/my%20file.html"),
        ("/ünï", "https://shop.test/ünï"),
        # Fragments are places on a page.
        ("/x#part", "https://shop.test/x"),
        ("#part", ""),
        ("#", ""),
        # No pages of the web.
        ("javascript:void(0)", ""),
        ("JavaScript:alert('/x')", ""),
        (" java\nscript:x", ""),
        ("mailto:a@shop.test", ""),
        ("tel:+49", ""),
        ("data:text/html,x", ""),
        ("ftp://shop.test/", ""),
        ("about:blank", ""),
        ("", ""),
        ("   ", ""),
        ("/" + "x" * MAX_URL, ""),
    ],
)
def test_a_link_is_absolute_or_nothing(href: str, url: str) -> None:
    assert absolute(href, base=Base.of(URL, "")) == url


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="/.ab?=&:#% \n\t\x00\u00fc", max_size=24))
@example("/a/b/")
@example("/a//b")
@example("/./a")
@example("/a/../b")
@example("/.well-known/x")
@example("/a?to=/../b")
@example("/" + "x" * (MAX_URL - len("https://shop.test/")))
@example("/" + "x" * (MAX_URL - len("https://shop.test/") + 1))
def test_the_short_way_to_an_address_ends_where_the_long_way_does(tail: str) -> None:
    node = f'<a href="/{tail.removeprefix("/")}"></a>'
    href = LexborHTMLParser(node).tags("a")[0].attributes["href"]
    assert href is not None
    url = absolute(href, base=Base.of(URL, ""))
    assert [link.url for link in links_of(node)] == ([url] if url else [])
    if url and "//" not in href and not set(href) & set("# \n\t\r\f\x00"):
        # urljoin drops what is empty after a question mark; the scheduler does that too.
        assert url.rstrip("?") == urljoin(URL, href).rstrip("?")


def test_a_link_with_spaces_survives_until_the_scheduler() -> None:
    assert (
        canonical(absolute("/my file.html?a b", base=Base.of(URL, ""))).url == "https://shop.test/my%20file.html?a+b="
    )


@pytest.mark.parametrize(
    ("base_href", "url"),
    [
        ("/base/", "https://shop.test/base/x"),
        ("/base/file", "https://shop.test/base/x"),
        ("https://cdn.test/b/", "https://cdn.test/b/x"),
        ("https://cdn.test", "https://cdn.test/x"),
        ("../", "https://shop.test/x"),
        ("javascript:x", "https://shop.test/a/x"),
        ("http://[bad", "https://shop.test/a/x"),
        ("  ", "https://shop.test/a/x"),
    ],
)
def test_relative_links_start_from_the_base_the_page_names(base_href: str, url: str) -> None:
    found = read(f"<head><base href='{base_href}'></head><a href=x>x</a>".encode())
    assert isinstance(found, Reading)
    assert [link.url for link in found.links] == [url]


def links_of(html: str) -> list[Link]:
    found = read(html.encode())
    assert isinstance(found, Reading)
    return found.links


def test_each_link_comes_once_in_the_order_of_the_page() -> None:
    found = links_of("<a href=/b>1</a><a>no</a><a href=/a#x>2</a><a href=/b>3</a><a href=/a#y>4</a><area href=/c>")
    assert [link.url for link in found] == ["https://shop.test/b", "https://shop.test/a"]


def test_nofollow_of_a_link_or_of_the_page_is_told_and_one_plain_twin_outweighs_it() -> None:
    found = links_of("<a rel='external NoFollow' href=/a></a><a href=/b></a><a rel=nofollow href=/b></a>")
    assert [(link.url[-1], link.nofollow) for link in found] == [("a", True), ("b", False)]
    twin = links_of("<a rel=nofollow href=/a></a><a href=/a></a>")
    assert [link.nofollow for link in twin] == [False]
    page = links_of("<head><meta name=Robots content='noindex, NOFOLLOW'></head><a href=/a></a>")
    assert [link.nofollow for link in page] == [True]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://shop.test/list?page=2", PAGINATION),
        ("https://shop.test/list?a=1&offset=40", PAGINATION),
        ("https://shop.test/blog/page/3", PAGINATION),
        ("https://shop.test/archive/", ARCHIVE),
        ("https://shop.test/2024/11/", ARCHIVE),
        ("https://shop.test/product/boots", ITEM),
        ("https://shop.test/news/2024/11/02/story-about", ITEM),
        ("https://shop.test/boots-12345.html", ITEM),
        ("https://shop.test/about", OTHER),
        ("https://archive.test/", OTHER),
        ("https://shop.test/?page=two", OTHER),
    ],
)
def test_a_link_says_what_it_seems_to_lead_to(url: str, kind: LinkKind.ValueType) -> None:
    assert kind_of(url) == kind


def test_neighbours_named_in_the_head_or_by_rel_are_pagination() -> None:
    found = links_of("<head><link rel=next href=/z></head><a rel=prev href=/y></a><a href=/x></a>")
    assert [(link.url[-1], link.kind) for link in found] == [("z", PAGINATION), ("y", PAGINATION), ("x", OTHER)]


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("<a rel href=/a></a>", [("a", OTHER, False)]),
        ("<a rel='' href=/a></a>", [("a", OTHER, False)]),
        ("<A HREF=/a REL=NOFOLLOW></A>", [("a", OTHER, True)]),
        ("<a href=/a href=/b rel=nofollow rel=next></a>", [("a", OTHER, True)]),
        ("<a rel='next nofollow' href=/a></a>", [("a", PAGINATION, True)]),
        ("<a rel=next href=/a></a><a rel=nofollow href=/a></a>", [("a", PAGINATION, False)]),
        ("<a rel=nofollow href=/a></a><a rel=next href=/a></a>", [("a", PAGINATION, False)]),
        ("<svg><a xlink:href=/b href=/a></a></svg>", [("a", OTHER, False)]),
        ("<svg><a xlink:href=/b></a></svg><a href></a><a href=''></a>", []),
    ],
)
def test_odd_attributes_of_a_link_do_not_confuse(link: str, found: list[tuple[str, LinkKind.ValueType, bool]]) -> None:
    assert [(one.url[-1], one.kind, one.nofollow) for one in links_of(link)] == found


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, MAX_URL), max_size=60), st.integers(1, 60))
def test_parts_hold_all_links_in_order_and_none_is_too_large(lengths: list[int], times: int) -> None:
    links = [Link(url="u" * length, kind=OTHER) for length in lengths] * times
    parts = list(split(links))
    assert [link for part in parts for link in part] == links
    assert parts
    for part in parts:
        assert len(part) <= PART_LINKS
        assert len(part) <= 1 or sum(link.ByteSize() for link in part) <= PART_BYTES
    assert all(parts) or parts == [[]]


def test_the_number_of_links_of_a_page_is_bounded() -> None:
    found = read(b"".join(b"<a href=/%d></a>" % n for n in range(MAX_LINKS + 10)))
    assert isinstance(found, Reading)
    assert len(found.links) == MAX_LINKS


def test_the_head_is_read_once_and_the_first_of_each_counts() -> None:
    tree = LexborHTMLParser(
        """<head><title> A\n  title </title><title>second</title><base href=/b/><base href=/c/>
        <meta name=description content=' said  so '><meta property=og:title content=OG><meta property=og:title content=2>
        <meta name=OG:Type content=product><link rel='canonical nofollow' href=/c><link rel=next href=/n></head>"""
    )
    head = read_head(tree)
    assert (head.title, head.description, head.canonical, head.base_href) == ("A title", "said so", "/c", "/b/")
    assert (head.opengraph, head.neighbours, head.nofollow) == (
        {"title": "OG", "type": "product"},
        (("next", "/n"),),
        False,
    )
    assert read_head(LexborHTMLParser("")) == Head()


def test_text_is_cleaned_and_bounded() -> None:
    assert clean(" a\x00 \n b ") == "a b"
    assert clean(None) == clean("") == ""
    assert len(clean("x" * 10_000)) == 2_000


@pytest.mark.parametrize(
    ("kind", "count", "declared", "kinds", "found"),
    [
        ("product", 1, "", [], "product"),
        ("product", 2, "", [], "listing"),
        ("product", 0, "", [], "page"),
        ("product", 0, "Product.item", [], "product"),
        ("page", 1, "article", [], "article"),
        ("page", 1, "website", [], "page"),
        ("page", 1, "", [ITEM] * 10 + [PAGINATION], "listing"),
        ("page", 1, "", [ITEM] * 10, "page"),
        ("page", 1, "", [ITEM] * 9 + [PAGINATION], "page"),
    ],
)
def test_the_type_of_a_page_follows_from_its_items_head_and_links(
    kind: str, count: int, declared: str, kinds: list[LinkKind.ValueType], found: str
) -> None:
    head = Head(opengraph={"type": declared})
    assert page_type(kind=kind, item_count=count, head=head, kinds=kinds) == found


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00" * 1000,
        b"<div>" * 10_000 + b"<h1>x</h1>",
        b"<h1>" + b"<b>" * 15_000,
        b"<table><tr><td>" * 3_000,
        b"<a href='" + b"x" * 1_000_000 + b"'>t</a>",
        b"<a " + b"a=1 " * 50_000 + b">t</a>",
        b"<title>" + b"x" * 1_000_000,
        b"<!--" * 50_000,
        b"<script type=application/ld+json>" + b"[" * 100_000 + b"</script>",
        b"<script type=application/ld+json>" + b'{"a":' * 100_000 + b"</script>",
        b"<script type=application/ld+json>" + b'{"@type":"Product","name":' + b"9" * 100_000 + b"}</script>",
        b"&" * 200_000,
        b"<meta charset=" + b"x" * 100_000,
    ],
    ids=range(14),
)
@pytest.mark.parametrize("parser", ["generic", "product"])
def test_hostile_markup_costs_a_moment_and_kills_nothing(parser: str, body: bytes) -> None:
    begun = time.thread_time()
    assert isinstance(read(body, parser=parser), (Reading, Unread))
    assert time.thread_time() - begun < 2.0


def test_a_page_nested_beyond_reason_is_refused_at_once() -> None:
    found = read(b"<div>" * 100_000)
    assert isinstance(found, Unread)
    assert "never closed" in found.error


def test_what_is_no_html_is_a_file_and_an_unknown_parser_is_named() -> None:
    found = read(b"%PDF", content_type="application/pdf")
    assert isinstance(found, Reading)
    assert (found.page_type, found.items, found.links) == ("file", [], [])
    unknown = read(b"x", parser="klingon")
    assert isinstance(unknown, Unread)
    assert "'klingon'" in unknown.error
    assert "article, feed, generic, json, listing, product, sitemap" in unknown.error


def test_links_are_looked_for_only_where_they_are_wanted() -> None:
    found = read_page(PageFetched(url=URL, parser="generic", follow=False), b"<a href=/x>x</a>")
    assert isinstance(found, Reading)
    assert found.links == []
