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
# What stands between the ends of a range. A hyphen without space before it may be a minus or part of a name.
_BETWEEN: Final = re.compile(r"(?<=[\d.\s\w\u20ac\u00a3$])\s?[-\u2010-\u2015~]\s?|\s(?:to|bis|\u00e0|a|till|do|tot)\s", re.IGNORECASE)
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3})+", re.ASCII)
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
    text = text[:_LONGEST].strip()
    if not text or text[0] in "-\u2212":
        return None
    ends = [end for end in _BETWEEN.split(text, maxsplit=2) if any(sign.isdecimal() for sign in end)][:2]
    if not ends:
        return None
    written = [Written.fromstring(end) for end in ends]
    amounts = [amount for one in written if (amount := _plain(one.amount)) is not None]
    if not amounts:
        return None
    sign = next((one.currency for one in written if one.currency), None)
    low, high = amounts[0], amounts[-1]
    ranged = len(amounts) == 2 and Decimal(high) > Decimal(low)
    return Price(low=low, high=high if ranged else None, currency=currency(sign, country=country))


def _plain(amount: Decimal | None) -> str | None:
    if amount is None or not amount.is_finite() or not 0 <= amount < 10**15:
        return None
    # More than six places are noise of somebody's arithmetic.
    exponent = amount.as_tuple().exponent
    return format(round(amount, 6).normalize() if isinstance(exponent, int) and exponent < -6 else amount, "f")
