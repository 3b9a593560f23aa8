"""Cookies that sites set, each kept for the pair of domain and proxy that it came to. Pure: time is an argument.

A cookie goes back only to the host that set it and through the proxy that it came through: a session that shows up
from two addresses is what gets both of them refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeAlias
from urllib.parse import urlsplit

MOST_PAIRS = 10_000
# Of one pair: what is least a browser keeps (RFC 6265, section 6.1), in all no more than a server takes.
MOST_COOKIES = 50
MOST_BYTES = 4096
NEVER = float("inf")

# Domain and proxy; 0 is the direct way.
Pair: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Cookie:
    name: str
    value: str
    path: str
    secure: bool
    expires: float

    @property
    def size(self) -> int:
        return len(self.name) + len(self.value) + 3


class Cookies:
    def __init__(self, *, most: int = MOST_PAIRS) -> None:
        self._most = most
        # The pair that was heard of last comes last.
        self._pairs: dict[Pair, dict[tuple[str, str], Cookie]] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def header(self, pair: Pair, url: str, *, now: float) -> str:
        """The value of the Cookie header; empty for none. Longer paths first, as servers expect."""
        kept = self._pairs.get(pair)
        if not kept:
            return ""
        parts = urlsplit(url)
        fit = [
            cookie
            for cookie in kept.values()
            if cookie.expires > now
            and _covers(cookie.path, parts.path or "/")
            and (not cookie.secure or parts.scheme == "https")
        ]
        fit.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in fit)

    def learn(self, pair: Pair, url: str, lines: Sequence[str], *, now: float) -> None:
        """From the Set-Cookie lines of an answer. Where there is no room, the oldest go."""
        kept = self._pairs.pop(pair, {})
        for line in lines:
            cookie = parsed(line, url, now=now)
            if cookie is None:
                continue
            kept.pop((cookie.name, cookie.path), None)
            if cookie.expires > now:
                kept[cookie.name, cookie.path] = cookie
        while len(kept) > MOST_COOKIES or sum(cookie.size for cookie in kept.values()) > MOST_BYTES:
            del kept[next(iter(kept))]
        if kept:
            self._pairs[pair] = kept
        if len(self._pairs) > self._most:
            del self._pairs[next(iter(self._pairs))]

    def forget(self, pair: Pair) -> None:
        """The site refused this session."""
        self._pairs.pop(pair, None)


def parsed(line: str, url: str, *, now: float) -> Cookie | None:
    """One Set-Cookie line (RFC 6265, section 5.2). What is not plain ASCII is nobody's cookie."""
    if len(line) > MOST_BYTES or not line.isascii() or not line.isprintable():
        return None
    pair, *attributes = line.split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not name:
        return None
    parts = urlsplit(url)
    path, secure, expires, max_age = _folder(parts.path), False, NEVER, None
    for attribute in attributes:
        key, _, told = (part.strip() for part in attribute.partition("="))
        match key.lower():
            case "domain" if not _is_of(parts.hostname or "", told):
                return None
            case "path" if told.startswith("/"):
                path = told
            case "secure":
                secure = True
            case "max-age" if told.removeprefix("-").isdigit():
                max_age = now + int(told[:12])
            case "expires":
                expires = _moment(told)
    return Cookie(name, value, path, secure, expires if max_age is None else max_age)


def _is_of(host: str, domain: str) -> bool:
    """A cookie for another site is refused; one for a parent of this host is kept, for this host alone."""
    domain = domain.lower().removeprefix(".")
    return not domain or host == domain or host.endswith("." + domain)


def _folder(path: str) -> str:
    return path[: path.rfind("/")] or "/"


def _covers(path: str, asked: str) -> bool:
    return asked == path or (asked.startswith(path) and (path.endswith("/") or asked[len(path)] == "/"))


def _moment(text: str) -> float:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return NEVER
