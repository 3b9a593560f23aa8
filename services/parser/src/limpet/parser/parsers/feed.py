"""Feeds: RSS 2.0 and 1.0, Atom, JSON Feed. Each entry is an item and, where it has an address, a link with its date."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel
from limpet.parser.dates import mail, stamp
from limpet.parser.inflate import CutShort, pieces, start_of
from limpet.parser.links import Base, absolute
from limpet.parser.pagefacts import clean
from limpet.parser.parsers import Found, Item, Parser
from limpet.parser.xmlstream import Enough, Field, Fields, Head, Shape, read_entries
from limpet.parser.xmltext import root_of

MAX_ENTRIES: Final = 5_000
ROOTS: Final = frozenset({"rss", "RDF", "feed"})
_ENTRIES: Final = frozenset({"item", "entry"})
_TITLE: Final = ("title", "dc:title")
_ID: Final = ("guid", "id", "dc:identifier")
_PUBLISHED: Final = ("pubDate", "published", "issued", "dc:date", "dcterms:issued", "dcterms:created")
_UPDATED: Final = ("updated", "modified", "atom:updated", "dcterms:modified")
_AUTHOR: Final = ("author/name", "dc:creator", "author", "atom:author/name")
_SUMMARY: Final = ("summary", "description", "content:encoded", "content", "dc:description")
_FIELDS: Final = frozenset(
    {"link", "atom:link", "atom:author", *_TITLE, *_ID, *_PUBLISHED, *_UPDATED, *_AUTHOR, *_SUMMARY}
)
# A tag ends where the next one begins, so that no text makes this slow.
_TAG: Final = re.compile(r"</?[a-zA-Z!][^<>]*>")
_NEIGHBOURS: Final = {"next": LinkRel.LINK_REL_NEXT, "previous": LinkRel.LINK_REL_PREV, "prev": LinkRel.LINK_REL_PREV}


def read(body: bytes, url: str, content_type: str) -> Found:
    """Raises ValueError for what is no feed, or a hostile one."""
    entries = Entries(url)
    start = start_of(body)
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        title, note = entries.read_json(body)
    else:
        if (root := root_of(start)) not in (*ROOTS, "?"):
            raise ValueError(f"the root of a feed is rss, RDF or feed, not {root[:50]!r}")
        head = read_entries(body, entries.shape)
        if head.root not in ROOTS:
            raise ValueError(f"the root of a feed is rss, RDF or feed, not {head.root[:50]!r}")
        title, note = entries.read_head(head), head.note
    return Found(items=entries.items, links=list(entries.links.values()), page_type="feed", title=title, note=note)


class Entries:
    def __init__(self, url: str) -> None:
        self.base = Base.of(url, "")
        self.items: list[Item] = []
        self.links: dict[str, Link] = {}

    def shape(self, head: Head) -> Shape:
        self.items, self.links = [], {}

        def on_entry(name: str, fields: Fields) -> None:
            if len(self.items) >= MAX_ENTRIES:
                raise Enough(f"more than {MAX_ENTRIES} entries")
            base = Base.of(self.base.url, head.attributes.get("xml:base", ""))
            title, author = _first(fields, _TITLE), _first(fields, _AUTHOR)
            self.put(
                title=plain(title),
                url=absolute(_address(fields), base=base),
                published=mail(_first(fields, _PUBLISHED)),
                updated=mail(_first(fields, _UPDATED)),
                author=plain(author),
                summary=plain(_first(fields, _SUMMARY)),
                id=clean(_first(fields, _ID)),
            )

        return Shape(_ENTRIES, _FIELDS, on_entry)

    def put(self, *, url: str, published: datetime | None, updated: datetime | None, **texts: str) -> None:
        item = {
            "title": texts["title"] or None,
            "url": url or None,
            "published": published.isoformat() if published else None,
            "updated": updated.isoformat() if updated else None,
            "author": texts["author"] or None,
            "summary": texts["summary"] or None,
            "id": texts["id"] or None,
        }
        # An entry that says nothing is none.
        if not any(item.values()):
            return
        self.items.append(item)
        if url and url not in self.links:
            self.links[url] = link = Link(url=url, kind=LinkKind.LINK_KIND_ITEM)
            if moment := updated or published:
                link.lastmod_time.CopyFrom(stamp(moment))

    def read_head(self, head: Head) -> str:
        """The feed's title. Its other pages (RFC 5005) are links as well."""
        for field in head.fields.get("link", []) + head.fields.get("atom:link", []):
            self.neighbour(field.attributes.get("rel", ""), field.attributes.get("href", ""))
        return plain(_first(head.fields, _TITLE))

    def neighbour(self, rel: str, href: str) -> None:
        url = absolute(href, base=self.base)
        if url and rel in _NEIGHBOURS and url not in self.links:
            self.links[url] = Link(url=url, kind=LinkKind.LINK_KIND_PAGINATION, rel=_NEIGHBOURS[rel])

    def read_json(self, body: bytes) -> tuple[str, str]:
        try:
            text = b"".join(pieces(body)).removeprefix(b"\xef\xbb\xbf")
        except CutShort as short:
            raise ValueError(str(short)) from short
        feed = orjson.loads(text)
        listed = feed.get("items")
        if not isinstance(listed, list) or "jsonfeed.org/version/" not in str(feed.get("version")):
            raise ValueError("this JSON is no feed: it has no version of jsonfeed.org, or no items")
        for entry in listed[:MAX_ENTRIES]:
            if isinstance(entry, dict):
                self.put_json(entry)
        self.neighbour("next", _text(feed.get("next_url")))
        return clean(_text(feed.get("title"))), f"more than {MAX_ENTRIES} entries" if len(listed) > MAX_ENTRIES else ""

    def put_json(self, entry: Mapping[str, Any]) -> None:
        authors = entry.get("authors")
        author = authors[0] if isinstance(authors, list) and authors else entry.get("author")
        told = [_text(entry.get(name)) for name in ("summary", "content_text")]
        self.put(
            title=clean(_text(entry.get("title"))),
            url=absolute(_text(entry.get("url")) or _text(entry.get("external_url")), base=self.base),
            published=mail(_text(entry.get("date_published"))),
            updated=mail(_text(entry.get("date_modified"))),
            author=clean(_text(author.get("name"))) if isinstance(author, dict) else "",
            summary=next((clean(text) for text in told if text), plain(_text(entry.get("content_html")))),
            id=clean(_text(entry.get("id"))),
        )


def plain(text: str) -> str:
    """Without markup, which feeds hide in their texts."""
    if "<" in text:
        text = _TAG.sub(" ", text)
    return clean(html.unescape(text) if "&" in text else text)


def _first(fields: Fields, names: tuple[str, ...]) -> str:
    return next((field.text for name in names for field in fields.get(name, ()) if field.text), "")


def _address(fields: Fields) -> str:
    """Atom's alternate, RSS's link, or a guid that is one."""
    links: list[Field] = [*fields.get("link", ()), *fields.get("atom:link", ())]
    for link in links:
        if (href := link.attributes.get("href")) and link.attributes.get("rel", "alternate") == "alternate":
            return href
    for link in links:
        if link.text:
            return link.text
    guid = fields.get("guid")
    is_address = guid and guid[0].attributes.get("isPermaLink", "true") == "true"
    return guid[0].text if guid and is_address and guid[0].text.startswith(("http://", "https://")) else ""


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    return str(value)[: 1 << 16].encode("utf-8", "replace").decode("utf-8")


PARSER: Final = Parser(name="feed", version="1", page_type="feed", read=read)
