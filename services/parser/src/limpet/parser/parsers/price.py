"""An amount as sites write it, turned into a plain decimal."""

from __future__ import annotations

import re
from typing import Any, Final

# A point may come first, as in .99, but not one that ends a word, as in Rs.99.
_AMOUNT: Final = re.compile(r"(?:(?<!\w)\.)?\d[\d.,'\u00a0\u202f ]{0,30}", re.ASCII)
_PLAIN: Final = re.compile(r"\d{1,15}(?:\.\d{1,6})?", re.ASCII)


def decimal_text(value: Any) -> str | None:
    """`"1.299,00 €"` is 1299.00, `19.9` is 19.9, `"call us"` is nothing. Text, because floats lose cents."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, int) and abs(value) >= 10**15:
        return None
    text = str(value)[:64]
    if isinstance(value, float) and "e" in text:
        return None
    # Most prices are written plainly.
    if _PLAIN.fullmatch(text):
        return text
    found = _AMOUNT.search(text)
    # Less than nothing is no price.
    if found is None or text.lstrip().startswith(("-", "\u2212")):
        return None
    amount = re.sub(r"['\u00a0\u202f ]", "", found[0]).rstrip(".,")
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
