"""Products: one item for each that the page is about, from what the page says for machines, or else from how it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from limpet.parser.document import Document
from limpet.parser.parsers import Parser, heuristics, opengraph
from limpet.parser.parsers.availability import condition
from limpet.parser.parsers.currency import country as country_of
from limpet.parser.parsers.identifiers import gtin
from limpet.parser.parsers.jsonld import Graph, blocks, first, nodes_of_type, types_of
from limpet.parser.parsers.markup import MICRODATA, RDFA, items_of_type
from limpet.parser.parsers.offers import GTINS, Offers, read_offers
from limpet.parser.parsers.price import decimal_text
from limpet.parser.parsers.rating import read_rating
from limpet.parser.parsers.values import absolute, images, name, prose, text

MAX_ITEMS: Final = 500
MAX_VARIANTS: Final = 100
_DESCRIPTION: Final = 5_000
_CRUMBS: Final = 20
_TYPES: Final = frozenset({"product", "productgroup", "individualproduct", "productmodel", "vehicle", "car", "book"})
_TRAILS: Final = frozenset({"breadcrumblist"})
_WANTED: Final = _TYPES | _TRAILS
_FILLED: Final = (
    "brand", "sku", "gtin", "mpn", "list_price", "availability", "condition", "images", "description", "category",
)  # fmt: skip


def extract(document: Document) -> list[dict[str, Any]]:
    """From the first source that knows a product; what a single one lacks is filled from the next."""
    found = _from_nodes(list(blocks(document.tree)), source="json-ld", document=document)
    if found and (len(found) > 1 or _is_enough(found[0])):
        return found
    for source in _further(document):
        more = source(bool(found))
        if not found:
            found = more
        elif len(more) == 1:
            _fill(found[0], more[0])
        if found and (len(found) > 1 or _is_enough(found[0])):
            break
    return found


def _is_enough(item: dict[str, Any]) -> bool:
    """Does it need no look at what else the page says?"""
    return item["price"] is not None and item["currency"] is not None


def _further(document: Document) -> Iterator[Callable[[bool], list[dict[str, Any]]]]:
    """From what is most exact to what is guessed; each is only asked when those before it did not do."""
    for syntax in (MICRODATA, RDFA):
        yield lambda unnamed, syntax=syntax: _from_nodes(  # type: ignore[misc]
            items_of_type(document.tree, syntax, types=_WANTED), source=syntax.name, document=document
        )
    yield lambda unnamed: _from_one(
        opengraph.product(document, metas=opengraph.metas(document)),
        source="opengraph",
        document=document,
        unnamed=unnamed,
    )
    yield lambda unnamed: _from_one(
        heuristics.product(document), source="heuristic", document=document, unnamed=unnamed
    )


def _from_one(node: dict[str, Any] | None, *, source: str, document: Document, unnamed: bool) -> list[dict[str, Any]]:
    return _from_nodes([node], source=source, document=document, unnamed=unnamed) if node is not None else []


def _from_nodes(found: list[Any], *, source: str, document: Document, unnamed: bool = False) -> list[dict[str, Any]]:
    """`unnamed` where the items only fill what another one lacks."""
    if not found:
        return []
    graph = Graph(found)
    nodes: list[dict[str, Any]] = []
    trails: list[dict[str, Any]] = []
    for node in nodes_of_type(found, types=_WANTED):
        (trails if "itemListElement" in node else nodes).append(node)
    if not nodes:
        return []
    reader = _Reader(document, graph=graph, source=source)
    variants = {
        one["@id"]
        for node in nodes
        if "hasVariant" in node
        for one in reader.variants(node)
        if isinstance(one.get("@id"), str)
    }
    items: list[dict[str, Any]] = []
    seen: set[tuple[str | None, ...]] = set()
    for node in nodes:
        # A variant that stands beside its group is told there.
        if variants and node.get("@id") in variants:
            continue
        item = reader.item(node)
        key = (item["name"], item["sku"], item["url"])
        if (unnamed or item["name"] is not None) and key not in seen:
            seen.add(key)
            items.append(item)
            if len(items) >= MAX_ITEMS:
                break
    if len(items) == 1 and items[0]["category"] is None and trails:
        items[0]["category"] = _trail(trails[0], graph=graph, product=items[0]["name"])
    return items


class _Reader:
    """Turns the nodes of one source into items."""

    def __init__(self, document: Document, *, graph: Graph, source: str) -> None:
        self.document = document
        self.graph = graph
        self.source = source
        self._country: str | None = None

    def country(self) -> str:
        if self._country is None:
            self._country = at_home(self.document)
        return self._country

    def variants(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        """What a group holds; a model may stand for the same."""
        value = node.get("hasVariant")
        if value is None:
            return []
        return [one for one in self.graph.all(value, limit=MAX_VARIANTS) if isinstance(one, dict)]

    def item(self, node: dict[str, Any]) -> dict[str, Any]:
        get, page_url, graph = node.get, self.document.url, self.graph
        offers = self.offers(get("offers"))
        brand = get("brand") or get("manufacturer")
        rated, pictured, category = get("aggregateRating"), get("image"), get("category")
        rating, count = read_rating(graph.of(first(rated))) if rated else (None, None)
        item: dict[str, Any] = {
            "name": prose(get("name"), limit=2_000),
            "brand": name(graph.of(first(brand))) if brand else None,
            "sku": text(said) if (said := get("sku") or offers.sku) else None,
            "gtin": self.gtin(node, offers),
            "mpn": text(said) if (said := get("mpn") or offers.mpn) else None,
            "price": offers.price,
            "price_high": offers.price_high,
            "list_price": offers.list_price,
            "currency": offers.currency,
            "availability": offers.availability,
            "condition": (condition(text(said)) if (said := get("itemCondition")) else None) or offers.condition,
            "images": list(images(pictured, graph=graph, page_url=page_url)) if pictured else [],
            "rating": rating,
            "rating_count": count,
            "description": prose(get("description"), limit=_DESCRIPTION),
            "url": absolute(said, page_url=page_url) if (said := get("url") or offers.url) else None,
            "category": self.category(category) if category else None,
            "source": self.source,
            "filled": {},
            "variants": [],
        }
        if "hasVariant" in node:
            self.add_variants(item, node)
        if "isVariantOf" in node:
            group = graph.of(first(node["isVariantOf"]))
            if isinstance(group, dict):
                self.inherit(item, group)
        return item

    def offers(self, value: Any) -> Offers:
        if value is None:
            return Offers()
        return read_offers(value, graph=self.graph, country=self.country)

    def gtin(self, node: dict[str, Any], offers: Offers) -> str | None:
        if not node.keys().isdisjoint(GTINS):
            for key in GTINS:
                if key in node and (number := gtin(text(node[key]))):
                    return number
        if offers.gtin and (number := gtin(text(offers.gtin))):
            return number
        if "productID" not in node:
            return None
        said = text(node["productID"])
        return gtin(said) if said and said[:4].lower() in ("gtin", "ean:", "upc:", "isbn") else None

    def category(self, value: Any) -> str | None:
        if isinstance(value, dict) and "breadcrumblist" in types_of(value):
            return _trail(value, graph=self.graph, product=None)
        named = [one for value in self.graph.all(value, limit=10) if (one := name(value))]
        return " > ".join(named) or None

    def add_variants(self, item: dict[str, Any], node: dict[str, Any]) -> None:
        read = []
        for one in self.variants(node):
            inner = self.item({key: value for key, value in one.items() if key not in ("hasVariant", "isVariantOf")})
            read.append({field: inner[field] for field in _OF_VARIANT} | _differing(one))
            for field in ("images", "brand", "description", "condition"):
                item[field] = item[field] or inner[field]
        item["variants"] = read
        priced = [one for one in read if one["price"] is not None]
        if item["price"] is None and priced:
            currency = priced[0]["currency"]
            same = [one for one in priced if one["currency"] == currency]
            low = min((one["price"] for one in same), key=Decimal)
            high = max((price for one in same for price in (one["price"], one["price_high"]) if price), key=Decimal)
            item["price"], item["currency"] = low, currency
            item["price_high"] = high if Decimal(high) > Decimal(low) else None
        states = {one["availability"] for one in read}
        if item["availability"] is None:
            item["availability"] = next((state for state in _STATES if state in states), None)

    def inherit(self, item: dict[str, Any], group: dict[str, Any]) -> None:
        if not isinstance(group.get("name"), (str, dict, list)) and "brand" not in group:
            return
        inner = {key: value for key, value in group.items() if key not in ("hasVariant", "isVariantOf", "offers")}
        shared = self.item(inner)
        for field in ("name", "brand", "images", "description", "category", "rating", "rating_count"):
            item[field] = item[field] or shared[field]


def at_home(document: Document) -> str:
    """The country whose money a bare sign on this page means."""
    root = document.tree.root
    language = (root.attributes.get("lang") or "") if root is not None else ""
    return country_of(language=document.head.opengraph.get("locale") or language, url=document.url)


def _differing(node: dict[str, Any]) -> dict[str, str]:
    return {key: said for key in ("color", "size", "material", "pattern") if (said := name(node.get(key)))}


def _trail(node: dict[str, Any], *, graph: Graph, product: str | None) -> str | None:
    """`Home > Shoes > Boots`, without the product itself at its end."""
    steps: list[tuple[Decimal, str]] = []
    for place, one in enumerate(graph.all(node.get("itemListElement"), limit=_CRUMBS)):
        if not isinstance(one, dict):
            continue
        said = text(one.get("name")) or name(graph.of(first(one.get("item"))))
        position = decimal_text(first(one.get("position")))
        if said and not said.startswith(("http://", "https://")):
            steps.append((Decimal(position) if position else Decimal(place), said))
    names = [said for _, said in sorted(steps, key=lambda step: step[0])]
    if names and product is not None and names[-1] == product:
        names.pop()
    return " > ".join(names) or None


def _fill(item: dict[str, Any], other: dict[str, Any]) -> None:
    """A price goes with its currency and range; the rest field by field."""
    if item["price"] is None and other["price"] is not None:
        for field in ("price", "price_high", "currency"):
            item[field] = other[field] or (item[field] if field == "currency" else None)
        item["filled"]["price"] = other["source"]
    elif item["currency"] is None and item["price"] == other["price"] and other["currency"] is not None:
        item["currency"] = other["currency"]
        item["filled"]["currency"] = other["source"]
    for field in _FILLED:
        if not item[field] and other[field]:
            item[field] = other[field]
            item["filled"][field] = other["source"]


_OF_VARIANT: Final = (
    "name", "sku", "gtin", "mpn", "price", "price_high", "list_price", "currency", "availability", "condition", "images", "url",
)  # fmt: skip
_STATES: Final = (
    "in_stock", "limited", "pre_order", "back_order", "made_to_order", "out_of_stock", "discontinued",
)  # fmt: skip

PARSER: Final = Parser(name="product", version="3", page_type="product", extract=extract)
