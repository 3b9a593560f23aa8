"""The parsers by name. Each turns a document into items; none of them fetches, stores or logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from limpet.parser.document import Document
from limpet.parser.parsers import generic, product

Item = dict[str, Any]


@dataclass(frozen=True)
class Parser:
    name: str
    # Changes whenever the same page would give other items.
    version: str
    # What a page with one such item is.
    page_type: str
    extract: Callable[[Document], list[Item]]


PARSERS: Final[Mapping[str, Parser]] = MappingProxyType(
    {
        parser.name: parser
        for parser in (
            Parser(name="generic", version="1", page_type="page", extract=generic.extract),
            Parser(name="product", version="2", page_type="product", extract=product.extract),
        )
    }
)
