"""Can it be bought, and in which condition is it: a few words, whatever a site writes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# What a page may say, best first: of several offers the best counts.
AVAILABILITY: Final = (
    "in_stock",
    "limited",
    "pre_order",
    "back_order",
    "made_to_order",
    "out_of_stock",
    "discontinued",
)
CONDITIONS: Final = ("new", "refurbished", "used", "damaged")
_AVAILABILITY: Final = {
    "instock": "in_stock",
    "available": "in_stock",
    "onlineonly": "in_stock",
    "instoreonly": "in_stock",
    "limitedavailability": "limited",
    "lowstock": "limited",
    "outofstock": "out_of_stock",
    "oos": "out_of_stock",
    "soldout": "out_of_stock",
    "unavailable": "out_of_stock",
    "reserved": "out_of_stock",
    "preorder": "pre_order",
    "presale": "pre_order",
    "availablefororder": "back_order",
    "backorder": "back_order",
    "madetoorder": "made_to_order",
    "discontinued": "discontinued",
}
_CONDITION: Final = {
    "new": "new",
    "newcondition": "new",
    "used": "used",
    "usedcondition": "used",
    "refurbished": "refurbished",
    "refurbishedcondition": "refurbished",
    "renewed": "refurbished",
    "damaged": "damaged",
    "damagedcondition": "damaged",
}
# What pages tell people, the clearer no before the yes that it contains.
_SAID: Final = (
    (
        "out_of_stock",
        re.compile(
            r"out[ -]of[ -]stock|sold[ -]?out|(?:not|un)[ -]?available|no longer in stock|not in stock|ausverkauft"
            r"|nicht (?:auf lager|vorr\u00e4tig|verf\u00fcgbar|lieferbar)|rupture de stock|indisponible|\u00e9puis\u00e9|agotado|sin stock"
            r"|non disponibile|esaurito|esgotado|uitverkocht|niet op voorraad|slut i lager|\u043d\u0435\u0442 \u0432 \u043d\u0430\u043b\u0438\u0447\u0438\u0438"
        ),
    ),
    (
        "discontinued",
        re.compile(r"discontinued|no longer (?:available|produced|made)|nicht mehr (?:lieferbar|im sortiment)"),
    ),
    ("pre_order", re.compile(r"pre-?order|vorbestell|pr\u00e9commande|reserva anticipada")),
    ("back_order", re.compile(r"back-?order|nachbestell")),
    ("made_to_order", re.compile(r"made to order|auf bestellung gefertigt")),
    ("limited", re.compile(r"only \d{1,3} left|low stock|few left|nur noch \d{1,3}|plus que \d{1,3}")),
    (
        "in_stock",
        re.compile(
            r"in stock|auf lager|vorr\u00e4tig|sofort lieferbar|lieferbar|en stock|disponible|disponibile|em estoque|op voorraad"
            r"|i lager|p\u00e5 lager|\u0432 \u043d\u0430\u043b\u0438\u0447\u0438\u0438|available|ships (?:today|in|within)"
        ),
    ),
)
_LONGEST: Final = 200


def availability(text: str | None) -> str | None:
    """Of a value made for machines: a name of schema.org or one of the words that shops use in its place."""
    return _AVAILABILITY.get(_word(text[-_LONGEST:])) if text else None


def availability_said(text: str) -> str | None:
    """Of a sentence made for people."""
    found = availability(text)
    if found is not None:
        return found
    said = text[:_LONGEST].lower()
    return next((state for state, pattern in _SAID if pattern.search(said)), None)


def best(states: list[str]) -> str | None:
    return min(states, key=AVAILABILITY.index, default=None)


def condition(text: str | None) -> str | None:
    return _CONDITION.get(_word(text[-_LONGEST:])) if text else None


# Every page of a site says it in the same few ways.
@lru_cache(maxsize=1_024)
def _word(text: str) -> str:
    word = text.strip().rstrip("/").rpartition("/")[2].rpartition(":")[2].rpartition("#")[2]
    return word.replace(" ", "").replace("_", "").replace("-", "").lower()
