"""Where a recipe looks: a page or a part of one, as an HTML node, as an lxml element, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import jmespath
import jmespath.exceptions
import lxml.etree
import lxml.html
import re2
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from limpet.parser.document import Document
from limpet.parser.parsers.jsonld import blocks

MOST: Final = 5_000


@dataclass
class Place:
    """Only one of `node`, `element` and `value` is what the place is; a page is all of them, each made when asked for."""

    url: str
    node: Any = None
    element: Any = None
    value: Any = None

    @property
    def source(self) -> str:
        if self.node is not None:
            return self.node.html or ""
        if self.element is not None:
            return str(lxml.html.tostring(self.element, encoding="unicode", with_tail=False))
        return self.value if isinstance(self.value, str) else ""


@dataclass
class Page(Place):
    document: Document | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.document is not None:
            self.node = self.document.tree

    @cached_property
    def root(self) -> Any:
        assert self.document is not None
        parser = lxml.html.HTMLParser(no_network=True, huge_tree=False)
        return lxml.html.document_fromstring(self.document.tree.html or "<html></html>", parser=parser)

    @cached_property
    def facts(self) -> Any:
        """What JSON-LD says, as one flat list: graphs are opened."""
        assert self.document is not None
        found: list[Any] = []
        for block in blocks(self.document.tree):
            for node in block if isinstance(block, list) else [block]:
                graph = node.get("@graph") if isinstance(node, dict) else None
                found += graph if isinstance(graph, list) else [node]
        return found


Finder = Callable[[Place], Sequence[Place]]


def css(expression: str) -> Finder:
    try:
        LexborHTMLParser("<p></p>").css(expression)
    except SelectolaxError as error:
        raise ValueError(f"{expression!r} is no CSS selector") from error
    return lambda place: [Place(place.url, node=node) for node in place.node.css(expression)[:MOST]]


def xpath(expression: str) -> Finder:
    try:
        # Without EXSLT's patterns, which backtrack.
        compiled = lxml.etree.XPath(expression, regexp=False)
    except lxml.etree.XPathError as error:
        raise ValueError(f"{expression!r} is no XPath: {error}") from error

    def find(place: Place) -> Sequence[Place]:
        found = compiled(place.root if isinstance(place, Page) else place.element)
        many = found if isinstance(found, list) else [found]
        return [_xpath_place(one, place.url) for one in many[:MOST]]

    return find


def _xpath_place(found: Any, url: str) -> Place:
    if isinstance(found, lxml.etree._Element):
        return Place(url, element=found)
    return Place(url, value=str(found) if isinstance(found, str) else found)


def json_path(expression: str) -> Finder:
    try:
        compiled = jmespath.compile(expression)
    except jmespath.exceptions.JMESPathError as error:
        raise ValueError(f"{expression!r} is no JMESPath: {' '.join(str(error).split())}") from error

    def find(place: Place) -> Sequence[Place]:
        data = place.facts if isinstance(place, Page) and place.document is not None else place.value
        try:
            found = compiled.search(data)
        except jmespath.exceptions.JMESPathError:
            # A function that was given what it does not take: the data is not as the recipe has it.
            return []
        many = found if isinstance(found, list) else [found]
        return [Place(place.url, value=one) for one in many[:MOST] if one is not None]

    return find


def content(place: Place, attribute: str, *, as_html: bool) -> Any:
    """What a place says: the attribute, else its text, else its value."""
    if place.node is not None:
        if attribute:
            return place.node.attributes.get(attribute)
        return place.node.html if as_html else place.node.text(separator=" ")
    if place.element is not None:
        if attribute:
            return place.element.get(attribute)
        return place.source if as_html else " ".join(place.element.itertext())
    return place.value.get(attribute) if attribute and isinstance(place.value, dict) else place.value


def pattern(expression: str) -> Callable[[str], str | None]:
    """Linear in the text, whatever the expression. Its first group counts, or all of it where it has none."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(expression, options)
    except re2.error as error:
        message = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{expression!r} is no regular expression (RE2): {message}") from error

    def search(text: str) -> str | None:
        found = compiled.search(text)
        return None if found is None else str(found[1 if compiled.groups else 0] or "") or None

    return search
