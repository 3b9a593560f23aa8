"""JSON-LD as it is found in the wild: graphs, arrays, references, nesting, comments around it, broken syntax."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import orjson
from selectolax.lexbor import LexborHTMLParser

MAX_NODES: Final = 5_000
MAX_BLOCKS: Final = 200
# What is larger and broken is not worth mending.
MAX_MENDED: Final = 512 << 10
_MAX_VALUES: Final = 50
# Every alternative ends at the end of the text where its own end is missing, so nothing is read twice.
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)'  # a string: nothing inside it is syntax
    r"|(?://)?(?:<!--|-->|<!\[CDATA\[|\]\]>)|/\*(?:.*?\*/|.*\Z)|//[^\n]*",
    re.DOTALL,
)
_COMMA: Final = re.compile(r'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)|,(?=\s*+[}\]])', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.?))', re.DOTALL)
# A quote ends its string only where JSON could go on after it.
_QUOTED: Final = re.compile(r'"((?:[^"\\]++|\\(?:.|\Z)|"(?!\s*+(?:[:,}\]]|\Z)))*+)(?:"|\Z)', re.DOTALL)
_LOOSE: Final = re.compile(r'\\.|"', re.DOTALL)
_START: Final = re.compile(r"[\s;,}\]]*+")


def blocks(tree: LexborHTMLParser) -> Iterator[Any]:
    """The value of each JSON-LD script of the page; one that cannot be read is left out."""
    found = 0
    for node in tree.tags("script"):
        kind = node.attributes.get("type")
        if kind is not None and "ld+json" in kind.lower():
            value = loads(node.text())
            if value is not None:
                yield value
                found += 1
                if found >= MAX_BLOCKS:
                    return


def loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _mended(text) if len(text) <= MAX_MENDED else None


def _mended(text: str) -> Any:
    if "&quot;" in text and '"' not in text:
        text = html.unescape(text)
    mended = _COMMA.sub(_comma, _TOKEN.sub(_token, text))
    values = _decoded(mended)
    if not values and '"' in mended:
        values = _decoded(_QUOTED.sub(_requoted, mended))
    return values[0] if len(values) == 1 else values or None


def _decoded(mended: str) -> list[Any]:
    values: list[Any] = []
    start = _START.match(mended).end()  # type: ignore[union-attr]
    # Some write one object after the other, or close more than they opened.
    while start < len(mended) and len(values) < _MAX_VALUES:
        try:
            value, end = _DECODER.raw_decode(mended, start)
        except (ValueError, RecursionError):
            break
        values.append(value)
        start = _START.match(mended, end).end()  # type: ignore[union-attr]
    return values


def _token(found: re.Match[str]) -> str:
    token = found[0]
    if token[0] != '"':
        return " "
    return _ESCAPE.sub(_escape, token) if "\\" in token else token


def _requoted(found: re.Match[str]) -> str:
    inner = _LOOSE.sub(lambda one: '\\"' if one[0] == '"' else one[0], found[1])
    return f'"{inner}"'


def _comma(found: re.Match[str]) -> str:
    return "" if found[0] == "," else found[0]


def _escape(found: re.Match[str]) -> str:
    # A backslash before anything else was never an escape.
    if found[2]:
        return f"\\u00{found[2]}"
    return found[0] if found[1] else found[3]


def _bounded_integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= 40 else None


# strict=False: line breaks and tabs inside strings are the most common fault. What JSON does not know is nothing.
_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_int=_bounded_integer)


def nodes_of_type(value: Any, *, types: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Outermost first, in the order of the page. What lies inside a match (related things) is not a match."""
    stack = [value]
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(islice(reversed(node), max(0, len(node) - MAX_NODES), None))
        elif isinstance(node, dict):
            declared = node.get("@type")
            if _bare(declared) in types if isinstance(declared, str) else not types.isdisjoint(types_of(node)):
                yield node
            else:
                stack.extend(inner for inner in reversed(node.values()) if isinstance(inner, (dict, list)))


def types_of(node: dict[str, Any]) -> Iterator[str]:
    """`Product` for `"Product"`, `["Product", …]` and `"http://schema.org/Product"`, in lower case."""
    declared = node.get("@type")
    for name in declared if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            yield _bare(name)


@lru_cache(maxsize=4_096)
def _bare(name: str) -> str:
    return name[-200:].replace("#", "/").replace(":", "/").rpartition("/")[2].lower()


def first(value: Any) -> Any:
    """The first of a list, or the value itself."""
    while isinstance(value, list):
        value = value[0] if value else None
    return value


class Graph:
    """All blocks of a page together, because one may refer to what another says."""

    def __init__(self, found: list[Any]) -> None:
        self.blocks = found
        self._by_id: dict[str, dict[str, Any]] | None = None

    def of(self, value: Any) -> Any:
        """What a bare reference refers to; anything else is itself."""
        if not isinstance(value, dict) or "@id" not in value or len(value) > 2 or not isinstance(value["@id"], str):
            return value
        # Only pages with references pay for the search.
        if len(value) == 2 and "@type" not in value:
            return value
        if self._by_id is None:
            self._by_id = dict(_identified(self.blocks))
        return self._by_id.get(value["@id"], value)

    def all(self, value: Any, *, limit: int = 100) -> list[Any]:
        """Each of a list, however it is nested, or the one value; references are followed."""
        if isinstance(value, dict):
            return [self.of(value)]
        if not isinstance(value, list):
            return [] if value is None else [value]
        found: list[Any] = []
        stack: list[Any] = [value]
        for _ in range(limit * 10):
            if not stack or len(found) >= limit:
                break
            one = stack.pop()
            if isinstance(one, list):
                stack.extend(reversed(one[: limit * 10]))
            elif one is not None:
                found.append(self.of(one))
        return found


def _identified(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    stack = [value]
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node[:MAX_NODES])
        elif isinstance(node, dict):
            # With nothing but a type it says no more than the reference.
            if len(node) - ("@type" in node) > 1 and isinstance(node.get("@id"), str):
                yield node["@id"], node
            stack.extend(inner for inner in node.values() if isinstance(inner, (dict, list)))
