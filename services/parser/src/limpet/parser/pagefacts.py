"""What a page says about itself: its head, read once, and what type of page it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from limpet.contracts.events.v1.parse_pb2 import LinkKind

TEXT_LIMIT: Final = 2_000
_HEAD_LIMIT: Final = 500
LISTING_LINKS: Final = 10
_NEIGHBOURS: Final = ("next", "prev", "previous")


@dataclass(frozen=True)
class Head:
    """The head of a page. Empty strings where it says nothing."""

    title: str = ""
    description: str = ""
    canonical: str = ""
    base_href: str = ""
    nofollow: bool = False
    # OpenGraph by name, without the prefix; the first of each name counts.
    opengraph: dict[str, str] = field(default_factory=dict)
    # <link rel=next> and <link rel=prev>, as (rel, href).
    neighbours: tuple[tuple[str, str], ...] = ()


def clean(text: str | None, *, limit: int = TEXT_LIMIT) -> str:
    """Single spaces, no NUL (PostgreSQL refuses it), bounded."""
    if not text:
        return ""
    return " ".join(text[: limit * 4].replace("\x00", "").split())[:limit]


def read_head(tree: LexborHTMLParser) -> Head:
    found: dict[str, str] = {}
    opengraph: dict[str, str] = {}
    neighbours: list[tuple[str, str]] = []
    nofollow = False
    head = tree.head
    nodes = head.iter() if head is not None else iter(())
    for _, node in zip(range(_HEAD_LIMIT), nodes, strict=False):
        tag = node.tag
        if tag == "title":
            found.setdefault("title", clean(node.text()))
        elif tag == "base":
            found.setdefault("base", node.attributes.get("href") or "")
        elif tag == "meta":
            attributes = node.attributes
            name = (attributes.get("property") or attributes.get("name") or "").lower()
            if name.startswith("og:"):
                opengraph.setdefault(name[3:53], clean(attributes.get("content")))
            elif name == "description":
                found.setdefault("description", clean(attributes.get("content")))
            elif name == "robots":
                nofollow = nofollow or "nofollow" in (attributes.get("content") or "").lower()
        elif tag == "link":
            _read_link(node, found, neighbours)
    return Head(
        title=found.get("title", ""),
        description=found.get("description", ""),
        canonical=found.get("canonical", ""),
        base_href=found.get("base", ""),
        nofollow=nofollow,
        opengraph=opengraph,
        neighbours=tuple(neighbours),
    )


def _read_link(node: LexborNode, found: dict[str, str], neighbours: list[tuple[str, str]]) -> None:
    attributes = node.attributes
    rel = (attributes.get("rel") or "").lower().split()
    if "canonical" in rel:
        found.setdefault("canonical", attributes.get("href") or "")
    else:
        for word in rel:
            if word in _NEIGHBOURS and len(neighbours) < len(_NEIGHBOURS):
                neighbours.append((word, attributes.get("href") or ""))


def page_type(*, kind: str, item_count: int, head: Head, kinds: Iterable[LinkKind.ValueType]) -> str:
    """`kind` is what the parser's items are, `kinds` what the links of the page seem to lead to."""
    declared = head.opengraph.get("type", "").lower()
    if kind != "page" and item_count:
        return kind if item_count == 1 else "listing"
    if declared.startswith("product"):
        return "product"
    if declared.startswith("article"):
        return "article"
    counted = Counter(kinds)
    if counted[LinkKind.LINK_KIND_PAGINATION] and counted[LinkKind.LINK_KIND_ITEM] >= LISTING_LINKS:
        return "listing"
    return "page"
