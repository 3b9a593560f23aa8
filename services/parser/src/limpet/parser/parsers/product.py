"""Products from JSON-LD: one item per product that the page is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urljoin

from limpet.parser.document import Document
from limpet.parser.pagefacts import clean
from limpet.parser.parsers import Parser
from limpet.parser.parsers.jsonld import blocks, first, nodes_of_type
from limpet.parser.parsers.price import decimal_text

MAX_ITEMS: Final = 500
MAX_IMAGES: Final = 20
_TYPES: Final = frozenset({"product", "productgroup", "individualproduct", "productmodel", "vehicle", "car"})
_GTINS: Final = ("gtin", "gtin13", "gtin14", "gtin12", "gtin8", "isbn")
_AVAILABILITY: Final = {
    "instock": "in_stock",
    "onlineonly": "in_stock",
    "instoreonly": "in_stock",
    "limitedavailability": "limited",
    "outofstock": "out_of_stock",
    "soldout": "out_of_stock",
    "preorder": "pre_order",
    "presale": "pre_order",
    "backorder": "back_order",
    "madetoorder": "made_to_order",
    "discontinued": "discontinued",
}


def extract(document: Document) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    seen: set[tuple[str | None, ...]] = set()
    for block in blocks(document.tree):
        for node in nodes_of_type(block, types=_TYPES):
            item = _product(node, page_url=document.url)
            key = (item["name"], item["sku"], item["url"])
            if item["name"] is not None and key not in seen and len(found) < MAX_ITEMS:
                seen.add(key)
                found.append(item)
    return found


def _product(node: dict[str, Any], *, page_url: str) -> dict[str, Any]:
    offer = _offer(node.get("offers"))
    return {
        "name": _text(node.get("name")),
        "brand": _name(node.get("brand") or node.get("manufacturer")),
        "sku": _text(node.get("sku") or offer.get("sku")),
        "gtin": next((text for key in _GTINS if (text := _text(node.get(key) or offer.get(key)))), None),
        "price": offer["price"],
        "currency": offer["currency"],
        "availability": _availability(offer.get("availability")),
        "images": list(_images(node.get("image"), page_url=page_url)),
        "rating": _rating(first(node.get("aggregateRating"))),
        "url": _absolute(node.get("url") or offer.get("url"), page_url=page_url),
    }


def _offer(value: Any) -> dict[str, Any]:
    """The first offer that names a price; a range counts with its lowest."""
    offers = [offer for offer in (value if isinstance(value, list) else [value]) if isinstance(offer, dict)]
    best: dict[str, Any] = {}
    for offer in offers[:100]:
        inner = offer.get("offers")
        stated = first(offer.get("priceSpecification"))
        specification = stated if isinstance(stated, dict) else {}
        price = next(
            (
                text
                for raw in (offer.get("price"), offer.get("lowPrice"), specification.get("price"))
                if (text := decimal_text(first(raw))) is not None
            ),
            None,
        )
        currency = _text(offer.get("priceCurrency") or specification.get("priceCurrency"))
        here = {**offer, "price": price, "currency": currency.upper()[:3] if currency else None}
        if price is None and isinstance(inner, (dict, list)):
            here = _inner_offer(inner, outer=here)
        if here["price"] is not None:
            return here
        best = best or here
    return best or {"price": None, "currency": None}


def _inner_offer(inner: Any, *, outer: dict[str, Any]) -> dict[str, Any]:
    # One level of nesting is what AggregateOffer has; deeper is not an offer any more.
    offers = inner if isinstance(inner, list) else [inner]
    nested = _offer([{**offer, "offers": None} for offer in offers if isinstance(offer, dict)])
    kept = {key: value for key, value in nested.items() if value is not None}
    return {**outer, **kept}


def _availability(value: Any) -> str | None:
    text = _text(value)
    if text is None:
        return None
    word = text.rsplit("/", 1)[-1].replace(" ", "").replace("_", "").replace("-", "").lower()
    return _AVAILABILITY.get(word)


def _images(value: Any, *, page_url: str) -> Iterator[str]:
    for image in (value if isinstance(value, list) else [value])[:MAX_IMAGES]:
        source = first(image.get("url") or image.get("contentUrl")) if isinstance(image, dict) else image
        if address := _absolute(source, page_url=page_url):
            yield address


def _rating(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict) or (score := decimal_text(first(value.get("ratingValue")))) is None:
        return None
    count = decimal_text(first(value.get("reviewCount") or value.get("ratingCount")))
    best = decimal_text(first(value.get("bestRating")))
    return {"value": score, "best": best, "count": int(float(count)) if count else None}


def _absolute(value: Any, *, page_url: str) -> str | None:
    text = _text(value)
    if text is None:
        return None
    try:
        url = urljoin(page_url, text) if not text.startswith(("https://", "http://")) else text
    except ValueError:
        return None
    return url if url.startswith(("https://", "http://")) else None


def _name(value: Any) -> str | None:
    value = first(value)
    return _text(value.get("name")) if isinstance(value, dict) else _text(value)


def _text(value: Any) -> str | None:
    """Text, numbers as text, language-tagged values; nothing else."""
    # Most of what is asked for is not there, and most of what is there is plain.
    if value is None:
        return None
    if isinstance(value, str) and value.isascii():
        return clean(value) or None
    value = first(value)
    if isinstance(value, dict):
        value = first(value.get("@value"))
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, int) and abs(value) >= 10**30:
        return None
    # A lone surrogate (possible in broken JSON) cannot be stored.
    return clean(str(value).encode("utf-8", "replace").decode("utf-8")) or None


PARSER: Final = Parser(name="product", version="2", page_type="product", extract=extract)
