"""P6: sitemaps as sitemaps.org describes them, as sites write them, and as nobody should."""

from __future__ import annotations

import codecs
import gzip
from datetime import UTC, datetime

import orjson
import pytest

from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import LinkKind
from limpet.parser.dates import mail, w3c
from limpet.parser.parsers import Found
from limpet.parser.parsers.sitemap import MAX_ENTRIES, read
from limpet.parser.reading import Reading, Unread, read_page

URL = "https://shop.test/sitemap.xml"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
SITEMAP, ITEM, OTHER = LinkKind.LINK_KIND_SITEMAP, LinkKind.LINK_KIND_ITEM, LinkKind.LINK_KIND_OTHER


def urlset(inner: str, *, attributes: str = NAMESPACE, head: str = HEAD) -> bytes:
    return f"{head}<urlset {attributes}>{inner}</urlset>".encode()


def entry(path: str, more: str = "") -> str:
    return f"<url><loc>https://shop.test{path}</loc>{more}</url>\n"


def found(body: bytes) -> Found:
    return read(body, URL, "application/xml")


def paths(body: bytes) -> list[str]:
    return [link.url.removeprefix("https://shop.test") for link in found(body).links]


def take(body: bytes, **values: object) -> Reading | Unread:
    given = {"url": URL, "parser": "generic", "content_type": "application/xml", "follow": True, **values}
    return read_page(PageFetched(**given), body)  # type: ignore[arg-type]


def test_p6_a_sitemap_gives_its_addresses_with_kind_and_time_of_change() -> None:
    body = urlset(
        entry("/about", "<lastmod>2026-11-02</lastmod><changefreq>daily</changefreq><priority>0.8</priority>")
        + entry("/product/boots", "<lastmod>2026-11-03T10:00:00.5+02:00</lastmod>")
        + entry("/plain")
    )
    result = found(body)
    assert [(link.url, link.kind) for link in result.links] == [
        ("https://shop.test/about", OTHER),
        ("https://shop.test/product/boots", ITEM),
        ("https://shop.test/plain", OTHER),
    ]
    assert [link.lastmod_time.ToDatetime(tzinfo=UTC) for link in result.links[:2]] == [
        datetime(2026, 11, 2, tzinfo=UTC),
        datetime(2026, 11, 3, 8, 0, 0, 500_000, tzinfo=UTC),
    ]
    assert not result.links[2].HasField("lastmod_time")
    assert (result.page_type, result.note) == ("sitemap", "")
    assert result.items == [
        {"form": "urlset", "entries": 3, "left_out": 0, "newest": "2026-11-03T08:00:00.500000+00:00", "note": None}
    ]


def test_p6_the_children_of_an_index_are_sitemaps() -> None:
    body = f"""{HEAD}<sitemapindex {NAMESPACE}>
        <sitemap><loc>https://shop.test/a.xml.gz</loc><lastmod>2026</lastmod></sitemap>
        <sitemap><loc>https://shop.test/b.xml</loc></sitemap>
        <url><loc>https://shop.test/stray</loc></url></sitemapindex>""".encode()
    result = found(body)
    assert [(link.url[-8:], link.kind) for link in result.links] == [("a.xml.gz", SITEMAP), ("st/b.xml", SITEMAP)]
    assert result.items[0]["form"] == "sitemapindex"


PLAIN = urlset(entry("/a") + entry("/b"))
EXTENDED = urlset(
    entry(
        "/a",
        "<image:image><image:loc>https://shop.test/1.jpg</image:loc></image:image>"
        "<news:news><news:publication><news:name>N</news:name></news:publication><news:title>T</news:title></news:news>"
        "<video:video><video:content_loc>https://shop.test/1.mp4</video:content_loc></video:video>"
        "<xhtml:link rel='alternate' hreflang='de' href='https://shop.test/de/a'/>",
    )
    + entry("/b"),
    attributes=NAMESPACE
    + ' xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml"',
)


@pytest.mark.parametrize(
    "body",
    [
        PLAIN,
        EXTENDED,
        gzip.compress(PLAIN),
        gzip.compress(gzip.compress(PLAIN)),
        gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]),
        gzip.compress(PLAIN) + b"\x00" * 512,
        codecs.BOM_UTF8 + PLAIN,
        b"\n \r\n" + PLAIN,
        codecs.BOM_UTF16_LE + PLAIN.decode().replace("UTF-8", "UTF-16").encode("utf-16-le"),
        PLAIN.decode().replace("UTF-8", "UTF-16").encode("utf-16-be"),
        urlset(entry("/a") + entry("/b"), attributes=""),
        urlset(entry("/a") + entry("/b"), head=""),
        urlset(entry("/a") + entry("/b"), attributes='xmlns="http://www.google.com/schemas/sitemap/0.84"'),
        urlset(
            entry("/a") + entry("/b"), head="<?xml version='1.0'?><?xml-stylesheet href='x.xsl'?><!-- <made> by us -->"
        ),
        urlset(entry("/a") + entry("/b"), head='<!DOCTYPE urlset SYSTEM "https://evil.test/x.dtd">'),
        PLAIN.replace(b"<", b"<s:").replace(b"<s:/", b"</s:").replace(b"<s:?", b"<?").replace(b"xmlns=", b"xmlns:s="),
        PLAIN.replace(b"<loc>", b"<loc>\n  ").replace(b"</loc>", b"\n</loc>"),
        PLAIN.replace(b"<loc>", b"<loc><![CDATA[").replace(b"</loc>", b"]]></loc>"),
        PLAIN.replace(b"https://shop.test/a", b"/a"),
        PLAIN.replace(b"/a<", b"/a#part<"),
        PLAIN.replace(b"</url>", b"<note>caf\xe9 \x0b</note></url>"),
        b"https://shop.test/a\r\n\r\nhttps://shop.test/b\n",
        codecs.BOM_UTF8 + b"https://shop.test/a\nnot an address\nhttps://shop.test/b",
        gzip.compress(b"https://shop.test/a\nhttps://shop.test/b"),
        b'<rss version="2.0"><channel><item><link>https://shop.test/a</link></item><item><link>https://shop.test/b</link></item></channel></rss>',
        b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="/a"/></entry><entry><link href="/b"/></entry></feed>',
    ],
    ids=range(26),
)
def test_p6_a_sitemap_is_read_however_it_is_written_and_sent(body: bytes) -> None:
    result = found(body)
    assert ([link.url for link in result.links], result.note) == (["https://shop.test/a", "https://shop.test/b"], "")


def test_p6_an_ampersand_that_nobody_escaped_stands_for_itself() -> None:
    body = urlset(entry("/a?x=1&y=2&amp;z=3&copy=1&nbsp;") + entry("/b?q=&#0;") + entry("/c"))
    assert paths(body) == ["/a?x=1&y=2&z=3&copy=1", "/b?q=", "/c"]
    # Wherever the pieces of a large file begin.
    many = "".join(entry(f"/p?n={number}&m={number}&eacute;") for number in range(5_000))
    assert paths(urlset(many)) == [f"/p?n={number}&m={number}é" for number in range(5_000)]


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (PLAIN[: PLAIN.index(b"/b")], "broken XML: no element found"),
        (PLAIN.replace(b"</url>\n<url>", b"</url></oops><url>"), "broken XML: mismatched tag"),
    ],
)
def test_p6_a_file_that_was_cut_short_gives_what_was_read_and_says_so(body: bytes, note: str) -> None:
    result = found(body)
    assert [link.url for link in result.links] == ["https://shop.test/a"]
    assert result.note.startswith(note)
    assert result.items[0]["note"] == result.note


def test_p6_gzip_of_which_next_to_nothing_came_fails_or_says_so() -> None:
    for body in (gzip.compress(PLAIN)[:-12], gzip.compress(PLAIN)[:10] + b"\xff" * 40, gzip.compress(PLAIN)[:5]):
        result = take(body, parser="sitemap", content_type="application/gzip")
        assert "gzip" in (result.note if isinstance(result, Reading) else result.error)


def test_p6_a_large_gzip_that_ends_early_gives_what_came() -> None:
    whole = gzip.compress(urlset("".join(entry(f"/p/{number}") for number in range(20_000))))
    result = found(whole[: len(whole) // 2])
    assert 1_000 < len(result.links) < 20_000
    assert result.note == "the gzip body ends too early"


def test_p6_more_than_50000_addresses_are_not_taken() -> None:
    result = found(urlset("".join(entry(f"/p/{number}") for number in range(MAX_ENTRIES + 5))))
    assert (len(result.links), result.note) == (MAX_ENTRIES, "more than 50000 entries")
    text = found("".join(f"https://shop.test/{number}\n" for number in range(MAX_ENTRIES + 5)).encode())
    assert (len(text.links), text.note) == (MAX_ENTRIES, "more than 50000 entries")


def test_p6_more_than_50_mb_are_not_inflated() -> None:
    bomb = gzip.compress(urlset(entry("/a") + " " * (200 << 20)), compresslevel=1)
    result = found(bomb)
    assert (len(result.links), result.note) == (1, "more than 50 MB")


@pytest.mark.parametrize(
    ("loc", "count"),
    [
        ("https://shop.test/" + "x" * 3000, 0),
        ("javascript:x", 0),
        ("", 0),
        ("ftp://shop.test/", 0),
        ("https://other.test/x", 1),
    ],
)
def test_p6_only_addresses_of_the_web_are_taken_and_hosts_are_left_to_the_scheduler(loc: str, count: int) -> None:
    result = found(urlset(f"<url><loc>{loc}</loc></url>"))
    assert (len(result.links), result.items[0]["left_out"]) == (count, 1 - count)


def test_p6_an_address_counts_once_and_an_empty_sitemap_is_one() -> None:
    assert paths(urlset(entry("/a") + entry("/a") + entry("/b"))) == ["/a", "/b"]
    assert paths(urlset("")) == paths(b"") == []
    assert paths(b"<urlset/>") == []


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-11", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-18", datetime(2026, 11, 18, tzinfo=UTC)),
        ("2026-11-18T20:00Z", datetime(2026, 11, 18, 20, tzinfo=UTC)),
        ("2026-11-18T20:00:01+00:00", datetime(2026, 11, 18, 20, 0, 1, tzinfo=UTC)),
        ("2026-11-18T20:00:01.123456789-05:30", datetime(2026, 11, 19, 1, 30, 1, 123456, tzinfo=UTC)),
        (" 2026-11-18 20:00:01 ", datetime(2026, 11, 18, 20, 0, 1, tzinfo=UTC)),
        ("2026-11-18T20:00:60Z", datetime(2026, 11, 18, 20, 0, 59, tzinfo=UTC)),
        ("2026-11-18T20:00+0200", datetime(2026, 11, 18, 18, tzinfo=UTC)),
        ("", None),
        ("yesterday", None),
        ("2026-13-01", None),
        ("2026-02-30", None),
        ("0000-00-00", None),
        ("0001-01-01T00:00:00Z", None),
        ("1970-01-01", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("２０２６", None),
        ("2026-11-18T25:00Z", None),
        ("9" * 1000, None),
    ],
)
def test_p6_a_time_of_change_has_any_precision_and_nonsense_is_none(text: str, moment: datetime | None) -> None:
    assert w3c(text) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Wed, 18 Nov 2026 20:00:01 GMT", datetime(2026, 11, 18, 20, 0, 1, tzinfo=UTC)),
        ("18 Nov 2026 20:00 +0200", datetime(2026, 11, 18, 18, tzinfo=UTC)),
        ("Wed, 18 Nov 26 20:00:01 EST", datetime(2026, 11, 19, 1, 0, 1, tzinfo=UTC)),
        ("2026-11-18T20:00:01Z", datetime(2026, 11, 18, 20, 0, 1, tzinfo=UTC)),
        ("Wed, 99 Nov 2026 20:00:01 GMT", None),
        ("", None),
        ("soon", None),
    ],
)
def test_p6_dates_of_feeds_are_those_of_mail_or_of_the_web(text: str, moment: datetime | None) -> None:
    assert mail(text) == moment


@pytest.mark.parametrize("parser", ["generic", "product"])
@pytest.mark.parametrize(
    "content_type", ["application/xml", "text/xml", "application/gzip", "application/x-gzip", "text/html", ""]
)
@pytest.mark.parametrize("zipped", [True, False])
def test_p6_a_sitemap_met_as_a_page_is_known_whatever_was_to_read_it(
    parser: str, content_type: str, zipped: bool
) -> None:
    result = take(gzip.compress(PLAIN) if zipped else PLAIN, parser=parser, content_type=content_type)
    assert isinstance(result, Reading)
    assert (result.page_type, len(result.links), result.items) == ("sitemap", 2, [])


def test_p6_a_sitemap_that_was_asked_for_gives_links_though_nobody_follows_and_its_parser_gives_a_summary() -> None:
    asked = take(PLAIN, kind=OrderKind.ORDER_KIND_SITEMAP, parser="product", follow=False)
    assert isinstance(asked, Reading)
    assert (asked.page_type, len(asked.links), asked.items) == ("sitemap", 2, [])
    named = take(PLAIN, parser="sitemap", follow=False)
    assert isinstance(named, Reading)
    assert (named.page_type, named.links, named.link_count) == ("sitemap", [], 2)
    assert orjson.loads(named.items[0])["entries"] == 2


@pytest.mark.parametrize(
    "body", [b"<!doctype html><html><h1>Not here</h1></html>", b"<html/>", b"not an address", b"\x89PNG\r\n"]
)
def test_p6_what_is_no_sitemap_fails_and_says_why(body: bytes) -> None:
    for values in ({"kind": OrderKind.ORDER_KIND_SITEMAP}, {"parser": "sitemap"}):
        result = take(body, content_type="text/html", **values)
        assert isinstance(result, Unread)
        assert "sitemap" in result.error or "address" in result.error


def test_p6_other_xml_is_a_file_and_xhtml_a_page() -> None:
    svg = take(b"<?xml version='1.0'?><svg/>", content_type="image/svg+xml")
    assert isinstance(svg, Reading)
    assert svg.page_type == "file"
    page = take(b"<?xml version='1.0'?><html><title>T</title></html>", content_type="application/xhtml+xml")
    assert isinstance(page, Reading)
    assert (page.page_type, page.title) == ("page", "T")
