"""Numbers that name a product the world over: GTINs (EAN, UPC, ISBN), kept only where their check digit is right."""

from __future__ import annotations

import re
from typing import Final

_SIZES: Final = (8, 12, 13, 14)
_BETWEEN: Final = re.compile(r"[\s\-\u2010-\u2015]+")
_PREFIX: Final = re.compile(r"(?:urn:)?(?:gtin|ean|upc|isbn)(?:-?\d{1,2})?[:\s]+", re.IGNORECASE)
_DIGITS: Final = re.compile(r"[0-9]{8,14}")
_ISBN10: Final = re.compile(r"[0-9]{9}[0-9xX]")
_LONGEST: Final = 40


def gtin(text: str | None) -> str | None:
    """The shortest of 8, 12, 13 or 14 digits that says the same number, so that one product has one spelling."""
    if not text or len(text) > _LONGEST:
        return None
    # Nearly all are plain digits.
    if not _DIGITS.fullmatch(text):
        text = _BETWEEN.sub("", _PREFIX.sub("", text.strip(), count=1))
        if _ISBN10.fullmatch(text):
            return _from_isbn10(text)
        if not _DIGITS.fullmatch(text):
            return None
    digits = text.lstrip("0")
    if len(text) in _SIZES and digits and _checked(text):
        return digits.zfill(next(size for size in _SIZES if len(digits) <= size))
    return _from_isbn10(text) if len(text) == 10 else None


def _checked(digits: str) -> bool:
    # Weights 3 and 1 in turn, from the right; the check digit itself counts once.
    values = [int(digit) for digit in reversed(digits)]
    return (sum(values[0::2]) + 3 * sum(values[1::2])) % 10 == 0


def _from_isbn10(text: str) -> str | None:
    values = [10 if sign in "xX" else int(sign) for sign in text]
    if sum((10 - place) * value for place, value in enumerate(values)) % 11 or not any(values):
        return None
    stem = f"978{text[:9]}"
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(stem))
    return f"{stem}{-total % 10}"
