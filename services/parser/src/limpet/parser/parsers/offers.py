"""What a product costs and whether it can be bought, from all the offers that a page makes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from limpet.parser.parsers.availability import availability, best, condition
from limpet.parser.parsers.currency import currency
from limpet.parser.parsers.jsonld import Graph, first
from limpet.parser.parsers.price import decimal_text, price_of
from limpet.parser.parsers.values import text

MAX_OFFERS: Final = 100
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


def read_offers(value: Any, *, graph: Graph, country: str) -> Offers:
    """The lowest price of all, in the currency of the first that names one; the best availability."""
    whole = Offers()
    offers = graph.all(value, limit=MAX_OFFERS)
    if not offers:
        return whole
    prices: list[_Offer] = []
    states: list[str] = []
    for offer in offers:
        if isinstance(offer, dict):
            _read(offer, whole, prices, states, graph=graph, country=country)
            # One level of nesting is what AggregateOffer has; deeper is not an offer any more.
            inner = offer.get("offers")
            if isinstance(inner, (dict, list)) and len(prices) < MAX_OFFERS:
                outer, end = prices[-1], len(prices)
                for one in graph.all(inner, limit=MAX_OFFERS):
                    if isinstance(one, dict):
                        _read(one, whole, prices, states, graph=graph, country=country)
                if outer.low is not None:
                    # The sum of them is said outright.
                    del prices[end:]
    if prices:
        _settle(whole, prices)
    whole.availability = best(states) if states else None
    return whole


def _read(
    offer: dict[str, Any], whole: Offers, prices: list[_Offer], states: list[str], *, graph: Graph, country: str
) -> None:
    prices.append(_price(offer, graph=graph, country=country))
    if said := offer.get("availability"):
        state = availability(text(said))
        if state is not None:
            states.append(state)
    if whole.condition is None and (said := offer.get("itemCondition")):
        whole.condition = condition(text(said))
    if whole.sku is None:
        whole.sku = offer.get("sku")
    if whole.mpn is None:
        whole.mpn = offer.get("mpn")
    if whole.gtin is None:
        whole.gtin = next((offer[key] for key in GTINS if offer.get(key)), None)
    if whole.url is None:
        whole.url = offer.get("url")


GTINS: Final = ("gtin13", "gtin", "gtin14", "gtin12", "gtin8", "ean", "upc", "isbn")


def _price(offer: dict[str, Any], *, graph: Graph, country: str) -> _Offer:
    raw = first(offer.get("price"))
    low = decimal_text(raw)
    code = offer.get("priceCurrency")
    high = listed = None
    if low is None or (isinstance(raw, str) and not raw.isascii()) or code is None:
        # Not a bare number: a line of text, perhaps with a currency or a range in it.
        read = price_of(raw, country=country) if isinstance(raw, str) else None
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


def _currency(code: Any, *, country: str) -> str | None:
    said = text(code)
    if said is None:
        return None
    # A code that nobody has heard of is still what the site says.
    return currency(said, country=country) or (said[:3].upper() if said[:3].isalpha() and len(said) == 3 else None)


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
