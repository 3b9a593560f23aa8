"""P6: feeds of every kind as items and links, and P5: what of them is told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import LinkKind, LinkRel
from limpet.parser.parsers import Found
from limpet.parser.parsers.feed import MAX_ENTRIES, plain, read
from limpet.parser.reading import Reading, Unread, read_page

URL = "https://news.test/feed"
RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:c="http://purl.org/dc/elements/1.1/" xmlns:x="http://purl.org/rss/1.0/modules/content/"
     xmlns:media="http://search.yahoo.com/mrss/" xmlns:atom="http://www.w3.org/2005/Atom">
<channel><title>News &amp; more</title><link>https://news.test/</link>
<atom:link rel="self" href="https://news.test/feed"/><atom:link rel="next" href="/feed?page=2"/>
<image><title>Logo</title><link>https://news.test/logo</link></image>
<item><title>Boots &amp;amp; hats</title><media:title>Not this</media:title><link>https://news.test/boots</link>
  <guid isPermaLink="false">tag:1</guid><pubDate>Wed, 18 Nov 2026 20:00:00 +0100</pubDate><c:creator>Jane</c:creator>
  <description>&lt;p&gt;Warm &lt;b&gt;boots&lt;/b&gt;&lt;/p&gt;</description><x:encoded><![CDATA[<p>All of it</p>]]></x:encoded>
  <enclosure url="https://news.test/a.mp3"/></item>
<item><title>Old</title><guid>https://news.test/old</guid></item>
<item></item>
</channel></rss>"""
ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://news.test/blog/">
<title type="html">News &amp;amp; more</title><link rel="self" href="/feed"/><link rel="next" href="https://news.test/feed?page=2"/>
<author><name>Everybody</name></author>
<entry><title type="html">Boots &amp;amp; hats</title><id>tag:1</id><link rel="edit" href="/edit"/><link href="../boots"/>
  <published>2026-11-18T20:00:00+01:00</published><updated>2026-11-19</updated>
  <author><name>Jane</name><email>jane@news.test</email></author>
  <summary type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Warm <b>boots</b></p></div></summary>
  <source><title>Elsewhere</title><id>tag:2</id></source></entry>
</feed>"""
RDF = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
         xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel rdf:about="https://news.test/"><title>News &amp; more</title><items><rdf:Seq/></items></channel>
<item rdf:about="https://news.test/boots"><title>Boots &amp; hats</title><link>https://news.test/boots</link>
<dc:date>2026-11-18T19:00:00Z</dc:date><dc:creator>Jane</dc:creator><description>Warm boots</description></item>
</rdf:RDF>"""
JSON = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "News & more",
    "next_url": "https://news.test/feed?page=2",
    "items": [
        {
            "id": 1,
            "url": "https://news.test/boots",
            "title": "Boots & hats",
            "content_html": "<p>Warm <b>boots</b></p>",
            "date_published": "2026-11-18T20:00:00+01:00",
            "date_modified": "2026-11-19T00:00:00Z",
            "authors": [{"name": "Jane"}],
        },
        {"id": "x", "external_url": "/old", "date_published": 5, "title": None, "authors": "x"},
        {}, 7, None,
    ],
}  # fmt: skip
PUBLISHED, UPDATED = "2026-11-18T19:00:00+00:00", "2026-11-19T00:00:00+00:00"


def found(body: str | bytes | dict[str, Any]) -> Found:
    raw = orjson.dumps(body) if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
    return read(raw, URL, "")


def item(**values: str | None) -> dict[str, str | None]:
    return {
        "title": "Boots & hats", "url": "https://news.test/boots", "published": PUBLISHED, "updated": None,
        "author": "Jane", "summary": "Warm boots", "id": None, **values,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (RSS, item(id="tag:1")),
        (ATOM, item(id="tag:1", updated=UPDATED)),
        (RDF, item()),
        (JSON, item(id="1", updated=UPDATED)),
    ],
    ids=["rss", "atom", "rdf", "json"],
)
def test_p6_an_entry_is_an_item_and_a_link_with_its_date(body: str | dict[str, Any], first: dict[str, Any]) -> None:
    result = found(body)
    assert result.items[0] == first
    assert (result.page_type, result.title, result.note) == ("feed", "News & more", "")
    link = result.links[0]
    assert (link.url, link.kind) == ("https://news.test/boots", LinkKind.LINK_KIND_ITEM)
    moment = datetime.fromisoformat(first["updated"] or first["published"])
    assert link.lastmod_time.ToDatetime(tzinfo=UTC) == moment


@pytest.mark.parametrize("body", [RSS, ATOM, JSON], ids=["rss", "atom", "json"])
def test_p5_the_next_page_of_a_feed_is_a_link_that_leads_on(body: str | dict[str, Any]) -> None:
    (link,) = [link for link in found(body).links if link.rel]
    assert (link.url, link.kind, link.rel) == (
        "https://news.test/feed?page=2",
        LinkKind.LINK_KIND_PAGINATION,
        LinkRel.LINK_REL_NEXT,
    )


def test_p6_a_guid_may_be_the_address_and_an_entry_without_anything_is_none() -> None:
    items = found(RSS).items
    assert len(items) == 2
    assert (items[1]["title"], items[1]["url"]) == ("Old", "https://news.test/old")
    assert found(RSS.replace("<guid>", "<guid isPermaLink='false'>")).items[1]["url"] is None
    assert [entry["url"] for entry in found(JSON).items] == ["https://news.test/boots", "https://news.test/old"]


def test_p6_a_feed_that_nobody_escaped_is_read_all_the_same() -> None:
    result = found(RSS.replace("Old", "Old & worn &nbsp;&eacute;"))
    assert result.items[1]["title"] == "Old & worn é"
    assert result.items[0] == item(id="tag:1")


def test_p6_a_feed_cut_short_gives_its_first_entries_and_says_so() -> None:
    result = found(RSS[: RSS.index("Old")])
    assert (len(result.items), result.note.startswith("broken XML")) == (1, True)


def test_p6_the_entries_of_a_feed_are_bounded() -> None:
    many = "".join(f"<item><link>https://news.test/{number}</link></item>" for number in range(MAX_ENTRIES + 3))
    result = found(f"<rss><channel>{many}</channel></rss>")
    assert (len(result.items), result.note) == (MAX_ENTRIES, "more than 5000 entries")
    listed = found({**JSON, "items": [{"id": str(number)} for number in range(MAX_ENTRIES + 3)]})
    assert (len(listed.items), listed.note) == (MAX_ENTRIES, "more than 5000 entries")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b>c</b>", "a c"),
        ("5 < 6", "5 < 6"),
        ("AT&amp;T", "AT&T"),
        ("<" * 50_000, "<" * 2_000),
        ("<a " * 50_000, None),
    ],
    ids=range(5),
)
def test_p6_texts_of_feeds_lose_their_markup(text: str, shown: str | None) -> None:
    assert shown is None or plain(text) == shown
    assert len(plain(text)) <= 2_000


@pytest.mark.parametrize(
    "body", ["{}", "[]", "{", '{"items": []}', "<html/>", "<urlset/>", "text", "", '{"version": 1, "items": [{}]}']
)
def test_p6_what_is_no_feed_fails_and_says_why(body: str) -> None:
    result = read_page(PageFetched(url=URL, parser="feed", content_type="application/xml"), body.encode())
    assert isinstance(result, Unread)
    assert result.error


@pytest.mark.parametrize("content_type", ["application/rss+xml", "application/xml", "text/html"])
def test_p6_a_feed_met_as_a_page_gives_its_links_and_by_its_parser_its_items(content_type: str) -> None:
    met = read_page(PageFetched(url=URL, parser="product", content_type=content_type, follow=True), RSS.encode())
    assert isinstance(met, Reading)
    assert (met.page_type, len(met.links), met.items) == ("feed", 3, [])
    named = read_page(PageFetched(url=URL, parser="feed", content_type=content_type, follow=True), RSS.encode())
    assert isinstance(named, Reading)
    assert (named.page_type, len(named.links), len(named.items), named.title) == ("feed", 3, 2, "News & more")
