"""Microdata and RDFa (Lite, with schema.org's names), read into the same shape as JSON-LD in one walk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from limpet.parser.parsers.jsonld import types_of

# What one page may cost: elements walked, pieces of text joined, items begun, levels of items in items.
_ELEMENTS: Final = 50_000
_TEXTS: Final = 50_000
_ITEMS: Final = 1_000
_LEVELS: Final = 12
_TEXT_LIMIT: Final = 20_000
_PIECES: Final = 2_000
_REFERENCES: Final = 20
_VALUES: Final = 200
_NAMES: Final = 10

_SOURCES: Final = frozenset({"audio", "embed", "iframe", "img", "source", "track", "video"})
_ADDRESSES: Final = frozenset({"a", "area", "link"})
# Other properties of a link mean what it says, not where it leads: that is how sites use them.
_OF_ADDRESS: Final = frozenset(
    {
        "url",
        "image",
        "availability",
        "itemcondition",
        "sameas",
        "contenturl",
        "thumbnailurl",
        "logo",
        "pricetype",
        "item",
    }
)
_SILENT: Final = frozenset({"script", "style", "template", "noscript"})


@dataclass(frozen=True, slots=True)
class Syntax:
    name: str
    prop: str
    # What makes an element an item, and what says of which type.
    scope: str
    type: str
    identity: str


MICRODATA: Final = Syntax("microdata", prop="itemprop", scope="itemscope", type="itemtype", identity="itemid")
RDFA: Final = Syntax("rdfa", prop="property", scope="typeof", type="typeof", identity="resource")


def items_of_type(tree: LexborHTMLParser, syntax: Syntax, *, types: frozenset[str]) -> list[dict[str, Any]]:
    """The outermost items of these types in the order of the page, as JSON-LD would have them."""
    roots = []
    for node in islice(tree.css(f"[{syntax.type}]"), _ITEMS):
        item = {"@type": (node.attributes.get(syntax.type) or "").split()}
        if not types.isdisjoint(types_of(item)):
            roots.append(node)
    walk = _Walk(tree, syntax)
    found = []
    for node in roots:
        # What was read as part of another item is no item of its own.
        if node.mem_id not in walk.read:
            found.append(walk.item(node))
    return found


@dataclass(slots=True)
class _Walk:
    tree: LexborHTMLParser
    syntax: Syntax
    elements: int = _ELEMENTS
    texts: int = _TEXTS
    read: set[int] = field(default_factory=set)

    def item(self, root: LexborNode) -> dict[str, Any]:
        syntax = self.syntax
        outer = self._begun(root, root.attributes)
        stack = [(child, outer, 1) for child in self._parts(root)]
        while stack and self.elements > 0:
            self.elements -= 1
            node, item, level = stack.pop()
            attributes = node.attributes
            names = attributes.get(syntax.prop) or ""
            begins = syntax.scope in attributes
            inner = item
            if begins:
                if not names and syntax is RDFA:
                    names = attributes.get("rel") or ""
                # An item that is nobody's property is its own; what lies in it is not ours.
                if not names or level >= _LEVELS:
                    continue
                self.read.add(node.mem_id)
                inner = self._begun(node, attributes)
            for spelled in names.split()[:_NAMES]:
                name = spelled.replace("#", "/").replace(":", "/").rpartition("/")[2]
                if name and not name.startswith("@"):
                    _add(item, name, inner if begins else self._value(node, attributes, name.lower()))
            if node.tag not in _SILENT:
                stack.extend((child, inner, level + begins) for child in self._parts(node, within=begins))
        return outer

    def _begun(self, node: LexborNode, attributes: dict[str, str | None]) -> dict[str, Any]:
        item: dict[str, Any] = {"@type": (attributes.get(self.syntax.type) or "").split()}
        if identity := attributes.get(self.syntax.identity):
            item["@id"] = identity
        return item

    def _parts(self, node: LexborNode, *, within: bool = True) -> list[LexborNode]:
        """Last first, as a stack takes them."""
        parts = list(islice(node.iter(), self.elements))
        if within and self.syntax is MICRODATA and (named := node.attributes.get("itemref")):
            for one in named.split()[:_REFERENCES]:
                if '"' in one or "\\" in one:
                    continue
                there = self.tree.css_first(f'[id="{one}"]')
                # Itself, or what was referred to already, would never end.
                if there is not None and there.mem_id not in self.read:
                    self.read.add(there.mem_id)
                    parts.append(there)
        parts.reverse()
        return parts

    def _value(self, node: LexborNode, attributes: dict[str, str | None], name: str) -> str | None:
        tag = node.tag or ""
        content = attributes.get("content")
        if content is not None:
            return content
        if tag == "meta":
            return None
        if tag in _SOURCES:
            return attributes.get("src") or attributes.get("data-src") or _first_of(attributes.get("srcset"))
        if tag in _ADDRESSES and (tag == "link" or name in _OF_ADDRESS):
            return attributes.get("href") or attributes.get("resource")
        if tag == "object":
            return attributes.get("data")
        if tag == "time" and attributes.get("datetime"):
            return attributes["datetime"]
        if tag in ("data", "meter") and attributes.get("value"):
            return attributes["value"]
        if self.syntax is RDFA and name in _OF_ADDRESS:
            address = attributes.get("resource") or attributes.get("href")
            if address:
                return address
        return self._text(node)

    def _text(self, node: LexborNode) -> str:
        pieces: list[str] = []
        length = 0
        for one in islice(node.traverse(include_text=True), min(_PIECES, max(self.texts, 0))):
            self.texts -= 1
            if one.tag == "-text":
                piece = one.text_content or ""
                parent = one.parent
                if parent is None or parent.tag not in _SILENT:
                    pieces.append(piece[:_TEXT_LIMIT])
                    length += len(piece)
                    if length > _TEXT_LIMIT:
                        break
        return "".join(pieces)


def _first_of(srcset: str | None) -> str | None:
    candidates = (srcset or "")[:2_048].split()
    return candidates[0].rstrip(",") if candidates else None


def _add(item: dict[str, Any], name: str, value: Any) -> None:
    there = item.get(name)
    if there is None:
        item[name] = value
    elif isinstance(there, list) and name != "@type":
        if len(there) < _VALUES:
            there.append(value)
    elif value is not None:
        item[name] = [there, value]


def breadcrumbs(tree: LexborHTMLParser) -> Iterator[dict[str, Any]]:
    for syntax in (MICRODATA, RDFA):
        yield from items_of_type(tree, syntax, types=frozenset({"breadcrumblist"}))
