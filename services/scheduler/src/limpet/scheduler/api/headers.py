"""Headers that a domain's requests carry besides the fetcher's own: which may be asked for. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

MOST_HEADERS: Final = 20
MOST_VALUE: Final = 1000
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
# Whoever sets these would break the request, or what the fetcher says and keeps by itself.
_OURS: Final = {
    "host": "is the URL's own",
    "user-agent": "has a setting of its own: user_agent",
    "cookie": "is kept for each pair of domain and proxy by itself",
    "authorization": "would stand readable in messages and in this API",
    "accept-encoding": "says what the fetcher can unpack",
    "range": "would ask for a part of the page",
    "expect": "would make the site wait for us",
    "forwarded": "speaks for a proxy",
    "via": "speaks for a proxy",
}
_HOP_BY_HOP: Final = {
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "trailers", "transfer-encoding", "upgrade",
    "content-length", "content-encoding", "content-type", "http2-settings",
}  # fmt: skip
_FAMILIES: Final = {
    "proxy-": "is for the proxy",
    "if-": "is set when a page is asked for again",
    "x-forwarded-": "speaks for a proxy",
}


def _checked(headers: dict[str, str]) -> dict[str, str]:
    seen = set()
    for name, value in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:64]!r} is no name of a header")
        if lower in seen:
            raise ValueError(f"{name} is there twice")
        seen.add(lower)
        if lower in _HOP_BY_HOP:
            raise ValueError(f"{name} belongs to the connection or to a body, not to the domain")
        if why := _OURS.get(lower) or next((why for start, why in _FAMILIES.items() if lower.startswith(start)), None):
            raise ValueError(f"{name} cannot be set: it {why}")
        if len(value) > MOST_VALUE or not _VALUE.fullmatch(value):
            raise ValueError(
                f"the value of {name} must be 1 to {MOST_VALUE} plain ASCII characters, without spaces at its ends"
            )
    return headers


Headers = Annotated[dict[str, str], Field(max_length=MOST_HEADERS), AfterValidator(_checked)]
