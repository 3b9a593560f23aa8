"""An amount as sites write it, turned into a plain decimal, and a price out of a line of text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from price_parser import Price as Written

from limpet.parser.parsers.currency import currency

# A point may come first, as in .99, but not one that ends a word, as in Rs.99.
_AMOUNT: Final = re.compile(r"(?:(?<!\w)\.)?\d[\d.,'\u2019\u00a0\u202f\u2009 ]{0,30}", re.ASCII)
_PLAIN: Final = re.compile(r"\d{1,15}(?:\.\d{1,6})?", re.ASCII)
_GROUPS: Final = re.compile(r"['\u2019\u00a0\u202f\u2009 ]")
# `10 - 20 €`, `€10–€20`, `from 10 to 20`: two amounts with hardly anything but signs around them.
_RANGE: Final = re.compile(
    r"(?:\w{2,12}[:.]?\s)?(\D{0,8}\d[\d.,' \u00a0\u202f]{0,20}?\s?[^\d\s]{0,6}?)"
    r"\s?(?:[-\u2010-\u2015~]|\b(?:to|bis|\u00e0|a|till|do|tot|and)\b)\s?"
    r"([^\d\-]{0,8}\d[\d.,' \u00a0\u202f]{0,20}\D{0,12})",
    re.IGNORECASE,
)
_FREE: Final = frozenset({"free", "free!", "gratis", "kostenlos", "gratuit"})
# Where a thousandth is a coin, three places are no group of digits.
_THOUSANDTHS: Final = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
_THREE_PLACES: Final = re.compile(r"\d\.\d{3}(?!\d)")
_BEFORE: Final = re.compile(r"([^\W\d_]{3}|[^\w\s.,'()-]|[A-Z]{0,3}\$|R)\s?(?=\d)", re.IGNORECASE)
_AFTER: Final = re.compile(r"(?<=\d)\s?([^\W\d_]{3}\b|[^\x00-\x7f]{1,5}|z[l\u0142]\b)", re.IGNORECASE)
# Longer digits are ruled out before anybody counts them.
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Price:
    low: str
    # Only where there is a range.
    high: str | None
    currency: str | None


def decimal_text(value: Any) -> str | None:
    """`"1.299,00 €"` is 1299.00, `19.9` is 19.9, `"call us"` is nothing. Text, because floats lose cents."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, int) and abs(value) >= 10**15:
        return None
    # Most prices are written plainly.
    text = value if isinstance(value, str) and len(value) <= 64 else str(value)[:64]
    if _PLAIN.fullmatch(text):
        return text
    if isinstance(value, float) and "e" in text:
        return None
    found = _AMOUNT.search(text)
    # Less than nothing is no price.
    if found is None or text.lstrip().startswith(("-", "\u2212")):
        return None
    amount = _GROUPS.sub("", found[0]).rstrip(".,")
    plain = _one_point(f"0{amount}" if amount.startswith(".") else amount)
    return plain if _PLAIN.fullmatch(plain) else None


def plain_price(value: Any) -> str | None:
    """An amount that is nothing but digits and one point; anything else takes `decimal_text`."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else None


def _one_point(amount: str) -> str:
    points, commas = amount.count("."), amount.count(",")
    if points and commas:
        # Whichever comes last is the decimal sign, the other groups digits.
        group = "," if amount.rindex(".") > amount.rindex(",") else "."
        return amount.replace(group, "").replace(",", ".")
    if commas == 1 and len(amount) - amount.index(",") != 4:
        return amount.replace(",", ".")
    return amount.replace(",", "") if points <= 1 else amount.replace(".", "")


def price_of(text: str, *, country: str = "") -> Price | None:
    """The price, or range of prices, of a line made for people: `"1.299 €"` is 1299 there."""
    text = text[:_LONGEST].strip().removeprefix("- ")
    if not text or text[0] in "-\u2212":
        return None
    if text.lower() in _FREE:
        return Price(low="0", high=None, currency=None)
    ends = found.groups() if (found := _RANGE.fullmatch(text)) else (text,)
    if (prices := [price for end in ends if (price := _single(end, country=country))]) and len(prices) == len(ends):
        low, high = prices[0], prices[-1]
        if len(prices) == 1 or Decimal(high.low) > Decimal(low.low):
            return Price(low.low, high.low if len(prices) == 2 else None, low.currency or high.currency)
    return _single(text, country=country) if len(ends) > 1 else None


def _single(text: str, *, country: str) -> Price | None:
    written = Written.fromstring(text)
    code = currency(written.currency, country=country) or _beside(text, country=country)
    if code in _THOUSANDTHS and _THREE_PLACES.search(text):
        written = Written.fromstring(text, decimal_separator=".")
    amount = _plain(written.amount)
    return Price(low=amount, high=None, currency=code) if amount is not None else None


def _beside(text: str, *, country: str) -> str | None:
    """A code or sign right beside the amount."""
    for pattern in (_BEFORE, _AFTER):
        for found in pattern.finditer(text):
            if code := currency(found[1], country=country) or currency(found[1][:1], country=country):
                return code
    return None


def _plain(amount: Decimal | None) -> str | None:
    if amount is None or not amount.is_finite() or not 0 <= amount < 10**15:
        return None
    # More than six places are noise of somebody's arithmetic.
    exponent = amount.as_tuple().exponent
    return format(round(amount, 6).normalize() if isinstance(exponent, int) and exponent < -6 else amount, "f")
