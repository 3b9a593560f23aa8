"""One page, read: its items, links and facts, or the reason why there are none."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson
from selectolax.lexbor import SelectolaxError

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import Link
from limpet.parser.document import is_html, read_document
from limpet.parser.links import find_links
from limpet.parser.pagefacts import page_type
from limpet.parser.parsers import Item, Parser
from limpet.parser.parsers.registry import installed

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
    # Only where somebody follows them.
    links: list[Link] = field(default_factory=list)


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
        if parser.extract is not None and is_html(page.content_type):
            return _read_html(page, body, parser)
        if parser.reads(page.content_type):
            return _read_bytes(page, body, parser)
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
    found = find_links(document.tree, page_url=page.url, head=document.head)
    return Reading(
        parser_version=parser.version,
        page_type=page_type(kind=parser.page_type, item_count=len(items), head=document.head, kinds=found.kinds()),
        title=document.head.title,
        items=items,
        link_count=len(found),
        links=found.messages() if page.follow else [],
    )


def _read_bytes(page: PageFetched, body: bytes, parser: Parser) -> Reading:
    assert parser.read is not None
    found = parser.read(body, page.url, page.content_type)
    return Reading(
        parser_version=parser.version,
        page_type=found.page_type or parser.page_type,
        title=found.title,
        items=_as_json(found.items),
        link_count=len(found.links),
        links=list(found.links) if page.follow else [],
    )


def _as_json(found: Sequence[Item]) -> list[str]:
    items = [orjson.dumps(item).decode() for item in found]
    # Hardly any item has the escape, and looking for a plain string is far cheaper.
    if any(_ESCAPE in item and _NUL.search(item) for item in items):
        # PostgreSQL would refuse it, and every other page of the batch with it.
        raise ValueError("an item holds a NUL character")
    return items
