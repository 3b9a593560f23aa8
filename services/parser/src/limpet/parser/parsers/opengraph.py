"""What the head says for whoever shares the page, in the shape of JSON-LD: OpenGraph, product tags, Twitter cards."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from limpet.parser.document import Document

_METAS: Final = 500
_VALUES: Final = 20
_PRICES: Final = (
    "product:sale_price:amount",
    "product:price:amount",
    "og:price:amount",
    "product:price",
    "twitter:data1",
)
_CURRENCIES: Final = ("product:sale_price:currency", "product:price:currency", "og:price:currency")
_GTINS: Final = ("product:gtin", "product:ean", "product:upc", "product:isbn", "og:ean", "og:upc")
_PREFIXES: Final = ("og:", "product:", "twitter:", "article:")


def metas(document: Document) -> dict[str, list[str]]:
    """Every tag by its name; of some, as images, a page has several."""
    found: dict[str, list[str]] = {}
    # Not only in the head: a body that begins too early takes the rest of the head with it.
    for node in islice(document.tree.tags("meta"), _METAS):
        attributes = node.attributes
        name = (attributes.get("property") or attributes.get("name") or "").strip().lower()
        content = attributes.get("content")
        if content and name.startswith(_PREFIXES):
            values = found.setdefault(name, [])
            if len(values) < _VALUES:
                values.append(content[:20_000])
    return found


def product(document: Document, *, metas: dict[str, list[str]]) -> dict[str, Any] | None:
    """Nothing where the page does not say that it is about a product."""
    if "twitter:data1" in metas and metas.get("twitter:label1", [""])[0].strip().lower() != "price":
        metas = {name: values for name, values in metas.items() if name != "twitter:data1"}
    price = _first(metas, *_PRICES)
    kind = (_first(metas, "og:type") or "").lower()
    if not (price or kind.startswith(("product", "og:product", "og.product", "item", "book"))):
        return None
    regular = _first(metas, "product:original_price:amount", "product:price:amount")
    return {
        "@type": "Product",
        "name": _first(metas, "og:title", "twitter:title") or document.head.title or None,
        "brand": _first(metas, "product:brand", "og:brand"),
        "sku": _first(metas, "product:retailer_item_id", "product:sku", "og:sku", "product:retailer_part_no"),
        "gtin": _first(metas, *_GTINS),
        "mpn": _first(metas, "product:mfr_part_no"),
        "category": _first(metas, "product:category"),
        "description": _first(metas, "og:description", "twitter:description") or document.head.description or None,
        "url": _first(metas, "og:url"),
        "image": [*metas.get("og:image:secure_url", ()), *metas.get("og:image", ()), *metas.get("og:image:url", ())]
        or metas.get("twitter:image"),
        "aggregateRating": {
            "ratingValue": _first(metas, "og:rating"),
            "bestRating": _first(metas, "og:rating_scale"),
            "ratingCount": _first(metas, "og:rating_count"),
        },
        "offers": {
            "price": price,
            "priceCurrency": _first(metas, *_CURRENCIES),
            "listPrice": regular if regular != price else None,
            "availability": _first(metas, "product:availability", "og:availability"),
            "itemCondition": _first(metas, "product:condition", "og:condition"),
        },
    }


def _first(metas: dict[str, list[str]], *names: str) -> str | None:
    return next((value for name in names for value in metas.get(name, ()) if value.strip()), None)
