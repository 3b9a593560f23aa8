"""Where a redirect leads, and whether that is still the same domain. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urldefrag, urljoin, urlsplit

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.validate import Failure

STATUSES = frozenset({301, 302, 303, 307, 308})
MAX_SHOWN = 300
_PORTS = {"http": 80, "https": 443}
# All that may stand in a URL; the rest is percent-encoded.
_SAFE = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An absolute location and its domain; the domain is empty where it cannot be crawled at all."""

    location: str
    domain: str


def domain_of(url: str) -> str:
    """Host, with its port where that is not the scheme's own; nothing when this is no web address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in _PORTS or not host:
        return ""
    if ":" in host:
        host = f"[{host}]"
    elif not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return ""
    return host if port is None or port == _PORTS[parts.scheme] else f"{host}:{port}"


def elsewhere(url: str, location: str) -> Elsewhere:
    # Header bytes that are no UTF-8 arrive as surrogates: they go back to bytes and are escaped.
    try:
        joined = urldefrag(urljoin(url, location.strip())).url
        domain = domain_of(joined)
    except ValueError:
        joined, domain = location, ""
    scheme, separator, rest = joined.partition("://")
    netloc, slash, path = rest.partition("/")
    if domain and not netloc.isascii():
        netloc = domain
    return Elsewhere(_escaped(scheme) + separator + _escaped(netloc) + slash + _escaped(path), domain)


def _escaped(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe=_SAFE)


@dataclass(frozen=True, slots=True)
class Moved:
    """The page is elsewhere: the next hop needs a slot of its own."""

    location: str


def follow(url: str, *, domain: str, status: int, location: str, anywhere: bool = False) -> Moved | Failure:
    """A robots.txt may be anywhere (RFC 9309, section 2.3.1.2); a page that leaves the domain is none of it."""
    if status not in STATUSES or not location.strip():
        return Failure(FailureKind.FAILURE_KIND_REDIRECT, f"status {status} without a place to go")
    found = elsewhere(url, location)
    where = found.location[:MAX_SHOWN]
    if not found.domain:
        return Failure(FailureKind.FAILURE_KIND_REDIRECT, f"redirected to {where}, which is no web address")
    if found.domain != domain and not anywhere:
        return Failure(
            FailureKind.FAILURE_KIND_REDIRECT,
            f"redirected to {where}, outside {domain}: to crawl it, add the domain {found.domain}",
        )
    return Moved(found.location)
