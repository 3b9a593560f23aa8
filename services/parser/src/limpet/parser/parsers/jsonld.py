"""JSON-LD as it is found in the wild: graphs, arrays, nesting, comments around it, broken syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
from selectolax.lexbor import LexborHTMLParser

MAX_NODES: Final = 5_000
_OPENINGS: Final = ("/*<![CDATA[*/", "//<![CDATA[", "<![CDATA[", "//<!--", "<!--")
_CLOSINGS: Final = ("/*]]>*/", "//]]>", "]]>", "//-->", "-->")
_TRAILING_COMMA: Final = re.compile(r",(?=\s*[}\]])")


def blocks(tree: LexborHTMLParser) -> Iterator[Any]:
    """The value of each JSON-LD script of the page; one that cannot be read is left out."""
    for node in tree.tags("script"):
        kind = node.attributes.get("type")
        if kind is not None and "ld+json" in kind.lower():
            value = loads(node.text())
            if value is not None:
                yield value


def loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    mended = _TRAILING_COMMA.sub("", _unwrapped(text))
    try:
        # strict=False: line breaks and tabs inside strings are the most common fault.
        return json.loads(mended, strict=False)
    except (ValueError, RecursionError):
        return None


def _unwrapped(text: str) -> str:
    text = text.strip()
    for opening in _OPENINGS:
        text = text.removeprefix(opening)
    for closing in _CLOSINGS:
        text = text.removesuffix(closing)
    return text.strip().rstrip(";")


def nodes_of_type(value: Any, *, types: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Outermost first, in the order of the page. What lies inside a match (related things) is not a match."""
    stack = [value]
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(reversed(node))
        elif isinstance(node, dict):
            if not types.isdisjoint(types_of(node)):
                yield node
            else:
                stack.extend(inner for inner in reversed(node.values()) if isinstance(inner, (dict, list)))


def types_of(node: dict[str, Any]) -> Iterator[str]:
    """`Product` for `"Product"`, `["Product", …]` and `"http://schema.org/Product"`, in lower case."""
    declared = node.get("@type")
    for name in declared if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            yield name.replace("#", "/").replace(":", "/").rpartition("/")[2].lower()


def first(value: Any) -> Any:
    """The first of a list, or the value itself."""
    while isinstance(value, list):
        value = value[0] if value else None
    return value
