"""What a recipe's types make of the text that was found; nothing where the text is no such thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urljoin

from price_parser import Price

from limpet.parser.pagefacts import clean
from limpet.parser.parsers.price import decimal_text

TEXT_LIMIT: Final = 100_000
_INTEGER: Final = re.compile(r"[-+\u2212]?\d{1,3}(?:[.,' \u00a0\u202f]\d{3}){1,5}(?!\d)|[-+\u2212]?\d{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"[-\u2212]?\s?[\d.,]", re.ASCII)
_NO: Final = frozenset({"", "0", "false", "no", "off", "none", "null"})
_CODES: Final = MappingProxyType({"€": "EUR", "£": "GBP", "$": "USD", "US$": "USD", "¥": "JPY", "₹": "INR", "₽": "RUB"})
_CODE: Final = re.compile(r"\b[A-Z]{3}\b")


def text(found: Any, page_url: str) -> str | None:
    return clean(_plain(found), limit=TEXT_LIMIT) or None


def html(found: Any, page_url: str) -> str | None:
    return _plain(found).replace("\x00", "").strip()[:TEXT_LIMIT] or None


def integer(found: Any, page_url: str) -> int | None:
    match = _INTEGER.search(_plain(found)[:1_000])
    return int(re.sub(r"[^\d-]", "", match[0].replace("\u2212", "-"))) if match else None


def decimal(found: Any, page_url: str) -> str | None:
    """Text, because floats lose digits."""
    plain = _plain(found)[:1_000]
    start = _NUMBER.search(plain)
    if start is None:
        return None
    negative = start[0][0] in "-\u2212"
    amount = decimal_text(plain[start.start() + negative :])
    return f"-{amount}" if amount is not None and negative else amount


def price(found: Any, page_url: str) -> str | None:
    amount = Price.fromstring(_plain(found)[:200]).amount
    return f"{amount:f}" if isinstance(amount, Decimal) and amount < 10**15 else None


def currency(found: Any, page_url: str) -> str | None:
    plain = _plain(found)[:200]
    sign = Price.fromstring(plain).currency or plain.strip()
    code = _CODES.get(sign, sign.upper())
    return code if _CODE.fullmatch(code) else None


def url(found: Any, page_url: str) -> str | None:
    try:
        address = urljoin(page_url, _plain(found).strip())
    except ValueError:
        return None
    return clean(address) if address.startswith(("http://", "https://")) else None


def boolean(found: Any, page_url: str) -> bool:
    """Something that is there says yes unless it says no."""
    return found if isinstance(found, bool) else _plain(found).strip().lower() not in _NO


def date(pattern: str) -> Callable[[Any, str], str | None]:
    """By the recipe's own pattern, else as ISO 8601 or as in e-mail has it."""

    def read(found: Any, page_url: str) -> str | None:
        plain = clean(_plain(found), limit=100)
        try:
            # A date without a zone stays one: whose zone it is, the page does not say.
            return (datetime.strptime(plain, pattern) if pattern else datetime.fromisoformat(plain)).isoformat()  # noqa: DTZ007
        except ValueError:
            pass
        try:
            return None if pattern else parsedate_to_datetime(plain).isoformat()
        except (ValueError, TypeError):
            return None

    return read


TYPES: Final[Mapping[str, Callable[[Any, str], Any]]] = MappingProxyType(
    {
        "text": text,
        "html": html,
        "integer": integer,
        "decimal": decimal,
        "price": price,
        "currency": currency,
        "url": url,
        "boolean": boolean,
    }
)


def _plain(found: Any) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, (int, float)) else ""
