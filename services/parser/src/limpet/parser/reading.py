"""One page, read: its items, links and facts, or the reason why there are none."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson
from selectolax.lexbor import SelectolaxError

from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind
from limpet.parser.document import Document, is_html, read_document
from limpet.parser.inflate import GZIP, start_of
from limpet.parser.links import address_of, find_links
from limpet.parser.pagefacts import LISTING_LINKS, page_type
from limpet.parser.parsers import Item, Parser, feed, sitemap
from limpet.parser.parsers.registry import installed
from limpet.parser.textfacts import NO_TEXT, TextFacts, read_text
from limpet.parser.xmltext import root_of

# What foreign markup can make a parser raise. It costs that page only.
TROUBLE: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SelectolaxError,
    TypeError,
    ValueError,
)
_XML: Final = (GZIP, b"<?xml", b"\xef\xbb\xbf<?xml", b"<urlset", b"<sitemapindex", b"<rss", b"<feed")
_MAYBE_XML: Final = (GZIP, b"<", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\r", b"\n", b" ")
_FRAMES: Final = 12
_TRACE: Final = 8_000
_ESCAPE: Final = r"\u0000"
# The escape itself; a backslash before it makes it text about the escape.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class Reading:
    parser_version: str
    page_type: str
    title: str = ""
    # Each item as JSON, ready to be stored.
    items: list[str] = field(default_factory=list)
    link_count: int = 0
    # Only where somebody follows them, and so with all that costs time to find out.
    links: list[Link] = field(default_factory=list)
    canonical_url: str = ""
    text: TextFacts = NO_TEXT
    # Why it was not read to its end; empty where it was.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """Nothing came of the page, and nothing would the next time unless it is retryable."""

    error: str
    # Where in the code it happened, for the people who mend it.
    trace: str = field(default="", compare=False)
    retryable: bool = False


def read_page(page: PageFetched, body: bytes, *, parsers: Mapping[str, Parser] | None = None) -> Reading | Unread:
    """Never raises, whatever the body holds. `parsers` are the installed ones where nobody says otherwise."""
    known = installed() if parsers is None else parsers
    parser = known.get(page.parser)
    if parser is None:
        return Unread(f"there is no parser named {page.parser!r}; there are {', '.join(sorted(known))}")
    try:
        if (listing := _listing(page, body, parser)) is not None:
            return _read_bytes(page, body, listing, named=parser)
        if parser.extract is not None and is_html(page.content_type):
            return _read_html(page, body, parser)
        if parser.reads(page.content_type):
            return _read_bytes(page, body, parser, named=parser)
    except TROUBLE as error:
        return unread(error)
    return Reading(parser_version=parser.version, page_type="file")


def unread(error: BaseException) -> Unread:
    trace = "".join(traceback.format_exception(error, limit=-_FRAMES))[-_TRACE:]
    return Unread(f"{type(error).__name__}: {error}"[:500], trace=trace)


def _read_html(page: PageFetched, body: bytes, parser: Parser) -> Reading:
    assert parser.extract is not None
    document = read_document(body, url=page.url, charset=page.charset)
    items = _as_json(parser.extract(document))
    found = find_links(document.tree, page_url=page.url, head=document.head, follow=page.follow)
    kinds = list(found.kinds()) if page.follow else found.kinds()
    kind = page_type(kind=parser.page_type, item_count=len(items), head=document.head, kinds=kinds)
    return Reading(
        parser_version=parser.version,
        page_type=kind,
        title=document.head.title,
        items=items,
        link_count=len(found),
        links=found.messages(kinds) if page.follow else [],
        canonical_url=address_of(document.head, page_url=page.url),
        text=_text(document, parser, kinds, item_count=len(items)) if isinstance(kinds, list) else NO_TEXT,
    )


def _text(document: Document, parser: Parser, kinds: list[LinkKind.ValueType], *, item_count: int) -> TextFacts:
    """One product or article in full is no page of a list, unless it leads on to other pages: nobody compares its text."""
    of_items = parser.page_type != "page"
    if of_items and item_count == 1 and LinkKind.LINK_KIND_PAGINATION not in kinds:
        return NO_TEXT
    nothing = kinds.count(LinkKind.LINK_KIND_ITEM) < LISTING_LINKS and not (of_items and item_count)
    return read_text(document.tree, lists_nothing=nothing)


def _listing(page: PageFetched, body: bytes, named: Parser) -> Parser | None:
    """What reads a sitemap or feed that was met where a page was meant: it has links, whoever was to read it."""
    if named in (sitemap.PARSER, feed.PARSER):
        return None
    if page.kind == OrderKind.ORDER_KIND_SITEMAP:
        return sitemap.PARSER
    # Nearly every page is HTML and looks like it.
    if not body.startswith(_XML if is_html(page.content_type) else _MAYBE_XML):
        return None
    root = root_of(start_of(body))
    if root in sitemap.ROOTS:
        return sitemap.PARSER
    return feed.PARSER if root in feed.ROOTS and not named.reads(page.content_type) else None


def _read_bytes(page: PageFetched, body: bytes, parser: Parser, *, named: Parser) -> Reading:
    assert parser.read is not None
    found = parser.read(body, page.url, page.content_type)
    return Reading(
        parser_version=named.version,
        page_type=found.page_type or parser.page_type,
        title=found.title,
        # Nobody asked for entries of a sitemap among the products.
        items=_as_json(found.items) if parser is named else [],
        link_count=len(found.links),
        links=list(found.links) if page.follow or page.kind == OrderKind.ORDER_KIND_SITEMAP else [],
        note=found.note,
    )


def _as_json(found: Sequence[Item]) -> list[str]:
    items = [orjson.dumps(item).decode() for item in found]
    # Hardly any item has the escape, and looking for a plain string is far cheaper.
    if any(_ESCAPE in item and _NUL.search(item) for item in items):
        # PostgreSQL would refuse it, and every other page of the batch with it.
        raise ValueError("an item holds a NUL character")
    return items
