"""Canonical URLs, made in one place: the scheduler's door. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode, urlsplit, urlunsplit

MAX_LENGTH = 8192
MAX_HOST = 253
_PORTS = {"http": 80, "https": 443}
# Most links are canonical already; for them the slow road is skipped.
_PLAIN = re.compile(r"(https?)://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::([0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)")
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class BadUrl(ValueError):
    """This text is not a URL that can be crawled."""


@dataclass(frozen=True, slots=True)
class Canonical:
    url: str
    domain: str
    digest: bytes


@lru_cache(maxsize=200_000)
def canonical(text: str) -> Canonical:
    """The one spelling of a URL, its domain and its identity."""
    try:
        url = _spell(text)
        digest = hashlib.sha256(url.encode()).digest()
    except UnicodeEncodeError:
        raise BadUrl("has half a character (a lone surrogate) in it") from None
    parts = urlsplit(url)
    return Canonical(url, parts.netloc.rsplit("@", 1)[-1], digest)


def _spell(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise BadUrl(f"longer than {MAX_LENGTH} characters")
    plain = _PLAIN.fullmatch(text)
    if (
        plain
        and "/." not in plain[4]
        and len(plain[2]) <= MAX_HOST
        and (plain[3] is None or (int(plain[3]) != _PORTS[plain[1]] and _port_ok(plain[3])))
    ):
        return text
    spelt = _spell_out(text.strip())
    if len(spelt) > MAX_LENGTH:
        raise BadUrl(f"longer than {MAX_LENGTH} characters when it is escaped")
    return spelt


def _port_ok(port: str) -> bool:
    return not port.startswith("0") and int(port) < 65536


def _spell_out(text: str) -> str:
    if _CONTROL.search(text):
        raise BadUrl("has white space or a control character in it")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadUrl(str(error)) from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise BadUrl("must start with http:// or https://")
    userinfo, at, _ = parts.netloc.rpartition("@")
    host = _host(parts.hostname or "")
    if port == 0:
        raise BadUrl("port 0 cannot be reached")
    netloc = userinfo + at + host + (f":{port}" if port is not None and port != _PORTS[scheme] else "")
    fragment = parts.fragment if parts.fragment.startswith("!") else ""
    return urlunsplit((scheme, netloc, _path(parts.path) or "/", _query(parts.query), fragment))


def _host(host: str) -> str:
    if ":" in host:
        host = f"[{host}]"
    elif not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            raise BadUrl("the host name is not valid") from None
    host = host.lower().rstrip(".")
    if not _HOST.fullmatch(host) or len(host) > MAX_HOST:
        raise BadUrl("has no valid host name")
    return host


def _path(path: str) -> str:
    """Percent-encoding canonical, dot segments resolved, case kept."""
    kept: list[str] = []
    segments = path.split("/")
    for index, segment in enumerate(segments):
        plain = quote(unquote_to_bytes(_ESCAPE.sub("%25", segment)), safe="!$&'()*+,;=:@-._~")
        if plain == "..":
            if len(kept) > 1:
                kept.pop()
            if index == len(segments) - 1:
                kept.append("")
        elif plain != ".":
            kept.append(plain)
        elif index == len(segments) - 1:
            kept.append("")
    return "/".join(kept)


def _query(query: str) -> str:
    """Sorted by key; repeated keys keep their order."""
    pairs = parse_qsl(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape")
    return urlencode(sorted(pairs, key=lambda pair: pair[0]), encoding="utf-8", errors="surrogateescape")
