"""Any page: title, description, canonical address, first heading, OpenGraph."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urljoin

from limpet.parser.document import Document
from limpet.parser.pagefacts import clean
from limpet.parser.parsers import Parser

_OPENGRAPH: Final = ("title", "type", "description", "image", "url", "site_name", "locale")


def extract(document: Document) -> list[dict[str, Any]]:
    head = document.head
    heading = document.tree.css_first("h1")
    return [
        {
            "title": head.title or None,
            "description": head.description or None,
            "canonical": _absolute(document.url, head.canonical),
            "h1": (clean(heading.text()) or None) if heading is not None else None,
            "opengraph": {name: head.opengraph[name] for name in _OPENGRAPH if head.opengraph.get(name)},
        }
    ]


def _absolute(page_url: str, href: str) -> str | None:
    try:
        return clean(urljoin(page_url, href.strip())) if href else None
    except ValueError:
        return None


PARSER: Final = Parser(name="generic", version="1", page_type="page", extract=extract)
