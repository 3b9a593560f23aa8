"""What a parser is. Each turns a page into items; none of them fetches, stores or logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from limpet.contracts.events.v1.parse_pb2 import Link
from limpet.parser.document import Document

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """What a parser of raw bytes found. A parser of documents gives its items alone; their links are found for it."""

    items: Sequence[Item] = ()
    # Absolute, with what is known of them.
    links: Sequence[Link] = ()
    # Where it is not what the parser says of itself.
    page_type: str = ""
    title: str = ""
    # Why it was not read to its end; empty where it was.
    note: str = ""


@dataclass(frozen=True)
class Parser:
    name: str
    # Changes whenever the same page would give other items.
    version: str
    # What a page with one such item is.
    page_type: str
    # HTML, as a tree.
    extract: Callable[[Document], list[Item]] | None = None
    # Anything else, as (body, url, content type); HTML too where there is no `extract`.
    read: Callable[[bytes, str, str], Found] | None = None
    # What `read` is given; none named means whatever comes. `application/*+json` stands for all such suffixes.
    content_types: frozenset[str] = field(default=frozenset())

    def reads(self, content_type: str) -> bool:
        """Is this given to `read`?"""
        if self.read is None:
            return False
        suffix = content_type.rpartition("+")[2]
        return (
            not self.content_types
            or content_type in self.content_types
            or f"application/*+{suffix}" in self.content_types
        )
