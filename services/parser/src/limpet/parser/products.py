"""Which items are products, which row each of them is, and which of their changes count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import orjson

# The parser whose every item is a product. Of any other parser, the one item of a page that is a product's is one.
PARSER: Final = "product"
PAGE_TYPE: Final = "product"

# A change of one of these makes a version. Ratings count up by themselves, and addresses of images carry tokens.
TRACKED: Final = (
    "name", "brand", "sku", "gtin", "mpn", "price", "price_high", "list_price", "currency", "availability",
    "condition", "category",
)  # fmt: skip
_DIGITS: Final = 15
_DECIMALS: Final = 6
_INDEXED: Final = 500
_TEXT: Final = 2000


@dataclass(frozen=True, slots=True)
class Product:
    """`key` tells the products of one page apart; `data` is the item as JSON text."""

    key: str
    url: str
    listed: bool
    name: str
    brand: str | None
    sku: str | None
    gtin: str | None
    mpn: str | None
    price: Decimal | None
    price_high: Decimal | None
    list_price: Decimal | None
    currency: str | None
    availability: str | None
    condition: str | None
    category: str | None
    data: str
    digest: bytes


def holds_products(*, parser: str, page_type: str) -> bool:
    return parser == PARSER or page_type == PAGE_TYPE


def products_of(items: Sequence[str], *, page_url: str) -> list[Product]:
    """Each product of the page once; an item without a name is none."""
    found: dict[str, Product] = {}
    named = [(item, data) for item, data in _loaded(items) if _text(data.get("name"))]
    for item, data in named:
        product = _product(item, data, page_url=page_url, listed=len(named) > 1)
        found.setdefault(product.key, product)
    return list(found.values())


def _loaded(items: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in items:
        data = orjson.loads(item)
        if isinstance(data, dict):
            yield item, data


def _product(item: str, data: dict[str, Any], *, page_url: str, listed: bool) -> Product:
    url = _text(data.get("url")) or page_url
    values = {name: _text(data.get(name)) for name in TRACKED}
    return Product(
        key=_key(values, url=url, page_url=page_url) if listed else "",
        url=url,
        listed=listed,
        name=values["name"] or "",
        brand=values["brand"],
        sku=_short(values["sku"]),
        gtin=_short(values["gtin"]),
        mpn=_short(values["mpn"]),
        price=number(values["price"]),
        price_high=number(values["price_high"]),
        list_price=number(values["list_price"]),
        currency=_short(values["currency"]),
        availability=_short(values["availability"]),
        condition=_short(values["condition"]),
        category=values["category"],
        data=item,
        digest=hashlib.blake2b(orjson.dumps(_counting(values)), digest_size=16).digest(),
    )


def _key(values: dict[str, str | None], *, url: str, page_url: str) -> str:
    """The page decides how a product of a list is known: its own address, else its number, else its name."""
    known = url if url != page_url else None
    chosen = known or values["sku"] or values["gtin"] or values["mpn"] or values["name"] or ""
    variant = values["sku"] if known and values["sku"] else ""
    return hashlib.blake2b(f"{chosen}\n{variant}".encode(), digest_size=16).hexdigest()


def _counting(values: dict[str, str | None]) -> list[str | None]:
    """1299.0 and 1299.00 are the same price."""
    return [
        str(amount.normalize()) if name in ("price", "price_high", "list_price") and (amount := number(text)) else text
        for name, text in values.items()
    ]


def number(text: str | None) -> Decimal | None:
    """An amount that a column and every format can hold."""
    try:
        amount = Decimal(text) if text else None
    except InvalidOperation:
        return None
    if amount is None or not amount.is_finite() or abs(amount) >= 10**_DIGITS:
        return None
    exponent = amount.as_tuple().exponent
    return amount if isinstance(exponent, int) and -_DECIMALS <= exponent <= 0 else amount.quantize(Decimal("0.000001"))


def _short(text: str | None) -> str | None:
    return text[:_INDEXED] if text else None


def _text(value: Any) -> str | None:
    """Text as it is; numbers and lists of texts as text; of anything else, nothing."""
    if isinstance(value, str):
        return value[:_TEXT] or None
    if isinstance(value, list):
        return " > ".join(part for part in value if isinstance(part, str))[:_TEXT] or None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return str(value)
