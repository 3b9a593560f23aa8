"""How people rate a product, out of five, whatever the site's own scale is."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from limpet.parser.parsers.jsonld import first
from limpet.parser.parsers.price import decimal_text

SCALE: Final = 5
_MOST: Final = 10**12
# Nobody counts people in thousandths.
_GROUPED: Final = re.compile(r"\d{1,3}(?:\.\d{3})+", re.ASCII)


def read_rating(value: Any) -> tuple[str | None, int | None]:
    """(score, count). Without a stated best, five is the best; what lies outside the scale is no score."""
    if not isinstance(value, dict):
        return None, None
    counted = first(value.get("ratingCount") or value.get("reviewCount"))
    if isinstance(counted, str) and _GROUPED.fullmatch(counted := counted[:40].strip()):
        counted = counted.replace(".", "")
    said = decimal_text(counted)
    count = int(Decimal(said)) if said else None
    return _score(value), count if count is not None and count < _MOST else None


def _score(value: dict[str, Any]) -> str | None:
    said = first(value.get("ratingValue"))
    best = decimal_text(first(value.get("bestRating")))
    if isinstance(said, str) and ("/" in said or "%" in said):
        said, _, scale = said[:40].replace("%", "/100").partition("/")
        best = decimal_text(scale) or best
    score = decimal_text(said)
    if score is None:
        return None
    top, worst = Decimal(best or SCALE), Decimal(decimal_text(first(value.get("worstRating"))) or 0)
    # Some write the two the wrong way round.
    top, worst = max(top, worst), min(top, worst)
    if not worst <= Decimal(score) <= top or not top:
        return None
    return score if top == SCALE else format(round(Decimal(score) * SCALE / top, 2).normalize(), "f")
