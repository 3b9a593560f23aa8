"""A page as the parsers see it: a tree and a head, whatever the bytes were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from limpet.parser.charset import html_source
from limpet.parser.pagefacts import Head, read_head

_HTML: Final = frozenset({"", "text/html", "application/xhtml+xml"})
# The tree builder looks back over all open elements, so it is quadratic in their number: 20,000 take half a second.
_OPEN_ELEMENTS: Final = 20_000
_WITHOUT_EVENTS: Final = int(LexborDocumentOptions.WO_EVENTS)


class Unreadable(ValueError):
    """The page is of no use to any parser, now or later."""


@dataclass(frozen=True)
class Document:
    url: str
    tree: LexborHTMLParser
    head: Head


def is_html(content_type: str) -> bool:
    return content_type in _HTML


def read_document(body: bytes, *, url: str, charset: str) -> Document:
    # A body that is too short to nest so deeply is not counted.
    if len(body) > 3 * _OPEN_ELEMENTS and body.count(b"<") - 2 * body.count(b"</") > _OPEN_ELEMENTS:
        raise Unreadable(f"more than {_OPEN_ELEMENTS} elements are never closed")
    tree = LexborHTMLParser(html_source(body, charset=charset), options=_WITHOUT_EVENTS)
    return Document(url=url, tree=tree, head=read_head(tree))
