"""What a product costs and whether it can be bought, from all the offers that a page makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from limpet.parser.parsers.availability import availability, best, condition
from limpet.parser.parsers.currency import currency
from limpet.parser.parsers.jsonld import Graph, first
from limpet.parser.parsers.price import decimal_text, plain_price, price_of
from limpet.parser.parsers.values import text

MAX_OFFERS: Final = 100
_LONG_WAY: Final = frozenset({"lowPrice", "highPrice", "priceSpecification", "listPrice"})
_LISTED: Final = ("listprice", "strikethroughprice", "srp", "msrp", "regularprice")


@dataclass(slots=True)
class Offers:
    price: str | None = None
    price_high: str | None = None
    list_price: str | None = None
    currency: str | None = None
    availability: str | None = None
    condition: str | None = None
    sku: Any = None
    gtin: Any = None
    mpn: Any = None
    url: Any = None


@dataclass(frozen=True, slots=True)
class _Offer:
    low: str | None
    high: str | None
    listed: str | None
    currency: str | None


def read_offers(value: Any, *, graph: Graph, country: Callable[[], str]) -> Offers:
    """The lowest price of all, in the currency of the first that names one; the best availability."""
    whole = Offers()
    prices: list[_Offer] = []
    states: list[str] = []
    room = MAX_OFFERS
    for offer in graph.all(value, limit=MAX_OFFERS):
        if not isinstance(offer, dict):
            continue
        outer = _read(offer, whole, states, graph=graph, country=country)
        prices.append(outer)
        # One level of nesting is what AggregateOffer has; deeper is not an offer any more.
        inner = offer.get("offers")
        if isinstance(inner, (dict, list)) and room > 0:
            read = [
                _read(one, whole, states, graph=graph, country=country)
                for one in graph.all(inner, limit=room)
                if isinstance(one, dict)
            ]
            room -= len(read)
            # Where the sum of them is said outright, that is it.
            if outer.low is None:
                prices.extend(read)
    if prices:
        _settle(whole, prices)
    if states:
        whole.availability = states[0] if len(states) == 1 else best(states)
    return whole


def _read(
    offer: dict[str, Any], whole: Offers, states: list[str], *, graph: Graph, country: Callable[[], str]
) -> _Offer:
    """What it costs; the rest is noted in the whole."""
    get = offer.get
    if (said := get("availability")) is not None and (state := availability(text(said))) is not None:
        states.append(state)
    if whole.condition is None and (said := get("itemCondition")) is not None:
        whole.condition = condition(text(said))
    if whole.sku is None:
        whole.sku = get("sku")
    if whole.mpn is None:
        whole.mpn = get("mpn")
    if whole.url is None:
        whole.url = get("url")
    if whole.gtin is None and not offer.keys().isdisjoint(GTINS):
        whole.gtin = next((offer[key] for key in GTINS if offer.get(key)), None)
    # As nearly all are: a number and a code.
    if (
        _LONG_WAY.isdisjoint(offer)
        and (low := plain_price(get("price"))) is not None
        and (code := get("priceCurrency"))
    ):
        return _Offer(low, None, None, _currency(code, country=country))
    return _price(offer, graph=graph, country=country)


GTINS: Final = ("gtin13", "gtin", "gtin14", "gtin12", "gtin8", "ean", "upc", "isbn")


def _price(offer: dict[str, Any], *, graph: Graph, country: Callable[[], str]) -> _Offer:
    raw = first(offer.get("price"))
    low = decimal_text(raw)
    code = offer.get("priceCurrency")
    high = listed = None
    if low is None or (isinstance(raw, str) and not raw.isascii()) or code is None:
        # Not a bare number: a line of text, perhaps with a currency or a range in it.
        read = price_of(raw, country=country()) if isinstance(raw, str) else None
        if read is not None:
            low, high = (read.low, read.high) if read.high or low is None else (low, None)
            code = code or read.currency
    if low is None and (bottom := first(offer.get("lowPrice"))) is not None:
        low = decimal_text(bottom)
    if (top := first(offer.get("highPrice"))) is not None:
        high = decimal_text(top)
        low = low or high
    stated = offer.get("priceSpecification")
    if stated is not None:
        for one in graph.all(stated, limit=10):
            if not isinstance(one, dict):
                continue
            amount = decimal_text(first(one.get("price")) or first(one.get("minPrice")))
            kind = (text(one.get("priceType")) or "").rpartition("/")[2].lower()
            if kind in _LISTED:
                listed = listed or amount
            elif low is None:
                low = amount
                high = high or decimal_text(first(one.get("maxPrice")))
            code = code or one.get("priceCurrency")
    if (said := first(offer.get("listPrice"))) is not None:
        listed = listed or decimal_text(said)
    return _Offer(low, high, listed, _currency(code, country=country))


def _currency(code: Any, *, country: Callable[[], str]) -> str | None:
    said = code if isinstance(code, str) else text(code)
    if said is None:
        return None
    known = currency(said)
    if known is not None and len(said) == 3:
        return known
    # A code that nobody has heard of is still what the site says.
    return currency(said, country=country()) or (said.upper() if len(said) == 3 and said.isalpha() else None)


def _settle(whole: Offers, prices: list[_Offer]) -> None:
    if len(prices) == 1:
        one = prices[0]
        whole.price, whole.price_high, whole.list_price, whole.currency = one.low, one.high, one.listed, one.currency
    else:
        named = next((one for one in prices if one.low is not None), prices[0])
        whole.currency = named.currency or next((one.currency for one in prices if one.currency), None)
        same = [one for one in prices if one.low and (one.currency or whole.currency) == whole.currency]
        if same:
            whole.price = min((one.low for one in same if one.low), key=Decimal)
            whole.price_high = max((high for one in same for high in (one.low, one.high) if high), key=Decimal)
        whole.list_price = next((one.listed for one in prices if one.listed), None)
    # A range of one price is none, and what is not above the price was never taken off.
    if whole.price is not None:
        if whole.price_high is not None and Decimal(whole.price_high) <= Decimal(whole.price):
            whole.price_high = None
        if whole.list_price is not None and Decimal(whole.list_price) <= Decimal(whole.price):
            whole.list_price = None
