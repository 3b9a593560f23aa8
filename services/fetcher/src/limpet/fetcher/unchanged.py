"""Asking whether a page has changed: what a site says of it for that, what it is asked with, what it answers. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from limpet.contracts.events.v1.fetch_pb2 import KnownPage

NOT_MODIFIED: Final = 304
_ETAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{1,300}"')
_LONGEST_DATE: Final = 40


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The page is the one that is known: neither a body came nor is one needed."""


def etag_of(header: str) -> str:
    """An entity tag as RFC 9110 spells it; anything else is not worth being sent back."""
    header = header.strip()
    return header if _ETAG.fullmatch(header) else ""


def date_of(header: str) -> str:
    """A date as the site wrote it, where it is one: sites compare it letter by letter."""
    header = header.strip()
    if len(header) > _LONGEST_DATE or not header.isascii() or not header.isprintable():
        return ""
    try:
        parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return ""
    return header


def condition(known: KnownPage) -> dict[str, str]:
    """The headers that ask for the page only if it has changed."""
    headers = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
    return {name: value for name, value in headers.items() if value}
