"""Single values of schema.org, whatever shape a site gave them: text, names, addresses, images, dates."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final
from urllib.parse import urljoin

from limpet.parser.pagefacts import TEXT_LIMIT, clean
from limpet.parser.parsers.jsonld import Graph, first

MAX_IMAGES: Final = 20
_MAX_URL: Final = 2_048
_TAG: Final = re.compile(r"<[a-zA-Z/!][^<>]*>")
_DATE: Final = re.compile(r"\d{4}-\d\d?-\d\d?")


def text(value: Any, *, limit: int = TEXT_LIMIT) -> str | None:
    """Text, numbers as text, language-tagged values; nothing else."""
    # Most of what is asked for is not there, and most of what is there is plain.
    if value is None:
        return None
    if isinstance(value, str) and value.isascii():
        # Nothing to clean: one space between words, no line breaks, no NUL.
        if len(value) <= limit and "  " not in value and "&" not in value and value.isprintable():
            return value.strip() or None
        return clean(html.unescape(value[: limit * 4]) if "&" in value else value, limit=limit) or None
    value = first(value)
    if isinstance(value, dict):
        value = first(value.get("@value"))
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, int) and abs(value) >= 10**30:
        return None
    said = str(value)[: limit * 4]
    if "&" in said:
        said = html.unescape(said)
    # A lone surrogate (possible in broken JSON) cannot be stored.
    return clean(said.encode("utf-8", "replace").decode("utf-8"), limit=limit) or None


def prose(value: Any, *, limit: int) -> str | None:
    """Text that some sites write with markup in it."""
    said = text(value, limit=limit)
    return clean(_TAG.sub(" ", said), limit=limit) or None if said and "<" in said else said


def name(value: Any) -> str | None:
    """Of something that has a name, or the name itself."""
    value = first(value)
    return text(value.get("name")) if isinstance(value, dict) else text(value)


def absolute(value: Any, *, page_url: str) -> str | None:
    said = text(value, limit=_MAX_URL + 1)
    if said is None or len(said) > _MAX_URL:
        return None
    if said.startswith(("https://", "http://")):
        return said
    try:
        url = urljoin(page_url, said)
    except ValueError:
        return None
    return url if url.startswith(("https://", "http://")) else None


def images(value: Any, *, graph: Graph, page_url: str) -> Iterator[str]:
    """Each once."""
    if isinstance(value, str):
        if address := absolute(value, page_url=page_url):
            yield address
        return
    seen: set[str] = set()
    for image in graph.all(value, limit=MAX_IMAGES):
        source = first(image.get("url") or image.get("contentUrl")) if isinstance(image, dict) else image
        address = absolute(source, page_url=page_url)
        if address and address not in seen:
            seen.add(address)
            yield address


def moment(value: Any) -> str | None:
    """A date or a time of ISO 8601, in one spelling; what is none of them is left out."""
    said = text(value, limit=40)
    if said is None:
        return None
    found = _DATE.match(said)
    if found is None:
        return None
    if "T" not in said and ":" not in said:
        year, month, day = (int(part) for part in found[0].split("-"))
        said = f"{year:04}-{month:02}-{day:02}"
    try:
        read = datetime.fromisoformat(said)
    except ValueError:
        return None
    return said if len(said) == 10 else read.isoformat()
