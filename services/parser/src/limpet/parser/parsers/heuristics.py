"""A product from how its page looks, in the shape of JSON-LD: the last resort, and only where much speaks for it."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from limpet.parser.document import Document
from limpet.parser.pagefacts import clean
from limpet.parser.parsers.availability import availability_said
from limpet.parser.parsers.price import Price, price_of

_CLIMB: Final = 8
_CANDIDATES: Final = 40
_IMAGES: Final = 8
_TEXT: Final = 160
_PRICED: Final = '[itemprop="price"],[data-price],[class*="price" i],[id*="price" i],[class*="amount" i]'
_FORMER: Final = re.compile(r"old|was|before|regular|strike|list-?price|rrp|uvp|msrp|compare|crossed", re.IGNORECASE)
# Not the price of one of it.
_OTHER: Final = re.compile(r"unit|per-|shipping|delivery|saving|discount|installment|monthly|tax", re.IGNORECASE)
_BUYING: Final = re.compile(
    r"add to (?:cart|bag|basket|trolley)|buy now|in den (?:warenkorb|einkaufswagen)|jetzt kaufen|ajouter au panier|acheter"
    r"|a\u00f1adir (?:al carrito|a la cesta)|comprar|aggiungi al carrello|acquista|adicionar ao carrinho|in winkelwagen"
    r"|do koszyka|l\u00e4gg i (?:varukorg|kundvagn)|\u0432 \u043a\u043e\u0440\u0437\u0438\u043d\u0443|\u043a\u0443\u043f\u0438\u0442\u044c"
    r"|out of stock|sold out|ausverkauft",
    re.IGNORECASE,
)
_BUTTONS: Final = 'button,input[type="submit"],[class*="cart" i],[class*="buy" i],[class*="basket" i]'
_CARDS: Final = frozenset({"li", "article", "a", "nav", "footer", "header", "aside"})
_CODE: Final = re.compile(
    r"(?:sku|art(?:icle|ikel)?\.?[ -]?(?:no|nr)?\.?|item (?:no|number)\.?|model)[:\s#]+([\w.\-/]{2,40})", re.I
)


def product(document: Document) -> dict[str, Any] | None:
    """Named by its only big heading, priced beside it, and for sale on this page."""
    tree = document.tree
    headings = tree.css("h1")
    if not 1 <= len(headings) <= 3 or not (named := clean(_text(headings[0]))) or not _for_sale(tree):
        return None
    around = _around(headings[0])
    if around is None:
        return None
    box, price, listed, currency = around
    stock = box.css_first('[class*="stock" i],[class*="availab" i],[id*="availab" i]')
    brand = box.css_first('[class*="brand" i],[class*="manufacturer" i]')
    return {
        "@type": "Product",
        "name": named,
        "brand": clean(_text(brand)) or None if brand is not None else None,
        "sku": _sku(box),
        "description": document.head.description or None,
        "url": document.head.canonical or None,
        "image": _images(box) or document.head.opengraph.get("image"),
        "category": _crumbs(tree, named),
        "offers": {
            "price": price[0],
            "highPrice": price[1],
            "listPrice": listed,
            "priceCurrency": currency,
            "availability": availability_said(clean(_text(stock))) if stock is not None else None,
        },
    }


def _for_sale(tree: LexborHTMLParser) -> bool:
    for node in islice(tree.css(_BUTTONS), 200):
        attributes = node.attributes
        if _BUYING.search(attributes.get("value") or attributes.get("aria-label") or "") or _BUYING.search(_text(node)):
            return True
    return False


def _around(heading: LexborNode) -> tuple[LexborNode, tuple[str, str | None], str | None, str | None] | None:
    """The smallest part of the page with the heading and a price in it."""
    node = heading.parent
    for _ in range(_CLIMB):
        if node is None or node.tag in ("html", None):
            return None
        found: Price | None = None
        former: str | None = None
        for one in islice(node.css(_PRICED), _CANDIDATES):
            price = None if _in_card(one, node) else _price(one)
            if price is None:
                continue
            if _is_former(one):
                former = former or price.low
            elif found is None:
                found = price
        if found is not None:
            return node, (found.low, found.high), former, found.currency
        node = node.parent
    return None


def _price(node: LexborNode) -> Price | None:
    attributes = node.attributes
    if _OTHER.search(attributes.get("class") or ""):
        return None
    said = clean(_text(node)) or attributes.get("content") or attributes.get("data-price") or ""
    price = price_of(said) if any(sign.isdecimal() for sign in said) else None
    # A number alone is no price unless its element says that it is one.
    return price if price and (price.currency or attributes.get("itemprop") or "data-price" in attributes) else None


def _in_card(node: LexborNode, box: LexborNode) -> bool:
    """Of another product: cards of related ones are links or entries of a list."""
    for _ in range(6):
        parent = node.parent
        if parent is None or node.mem_id == box.mem_id:
            return False
        if node.tag in _CARDS:
            return True
        node = parent
    return False


def _is_former(node: LexborNode) -> bool:
    if node.tag in ("del", "s", "strike") or _FORMER.search(node.attributes.get("class") or ""):
        return True
    parent = node.parent
    return parent is not None and (parent.tag in ("del", "s", "strike") or node.css_first("del,s") is not None)


def _sku(box: LexborNode) -> str | None:
    marked = box.css_first('[class*="sku" i],[id*="sku" i],[data-sku]')
    if marked is not None:
        said = clean(marked.attributes.get("data-sku") or _text(marked))
        found = _CODE.search(said)
        return found[1] if found else said if 2 <= len(said) <= 40 and " " not in said else None
    return None


def _images(box: LexborNode) -> list[str]:
    found = []
    for node in islice(box.css("img"), _IMAGES):
        attributes = node.attributes
        source = attributes.get("data-src") or attributes.get("src")
        if source and not source.startswith("data:") and not _in_card(node, box):
            found.append(source)
    return found


def _crumbs(tree: LexborHTMLParser, named: str) -> str | None:
    trail = tree.css_first('[class*="breadcrumb" i],[aria-label*="breadcrumb" i]')
    if trail is None:
        return None
    steps = [said for node in islice(trail.css("a"), 20) if (said := clean(_text(node))) and said != named]
    return " > ".join(steps) or None


def _text(node: LexborNode) -> str:
    """Some of the text of an element, never the whole of a page."""
    pieces, length = [], 0
    for one in islice(node.traverse(include_text=True), 60):
        if one.tag == "-text" and (parent := one.parent) is not None and parent.tag not in ("script", "style"):
            piece = (one.text_content or "")[:_TEXT]
            pieces.append(piece)
            length += len(piece)
            if length >= _TEXT:
                break
    return "".join(pieces)
