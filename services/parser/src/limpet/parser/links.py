"""The links of a page: absolute, each once, with what they seem to lead to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind
from limpet.parser.pagefacts import Head

# What a link seems to lead to, and whether the page asks not to follow it.
Found: TypeAlias = tuple[LinkKind.ValueType, bool]

MAX_URL: Final = 2_048
MAX_LINKS: Final = 50_000
PART_LINKS: Final = 1_000
PART_BYTES: Final = 256 << 10

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*:")
_SPACE: Final = " \t\n\r\f\x00"
_PAGINATION: Final = re.compile(
    r"[?&](?:page|paged|pg|p|start|offset)=\d{1,6}(?:&|$)|/page[/\-]?\d{1,6}(?:[/?.]|$)", re.IGNORECASE
)
_ARCHIVE: Final = re.compile(
    r"/(?:archives?|sitemap)(?:[/?.\-_]|$)|/(?:19|20)\d\d(?:/[01]?\d(?:/[0-3]?\d)?)?/?$", re.IGNORECASE
)
_ITEM: Final = re.compile(
    r"/(?:products?|items?|p|dp|articles?|posts?|news|story)/[^/?]+|/(?:19|20)\d\d/[01]?\d/[^?]{3}|-\d{4,}(?:\.html?)?/?$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Base:
    """The address that relative links start from, cut once so that most links are one concatenation."""

    url: str
    scheme: str
    origin: str
    folder: str
    path: str

    @classmethod
    def of(cls, page_url: str, base_href: str) -> Base:
        url = _join(page_url, base_href.strip(_SPACE)) if base_href else page_url
        if not url.startswith(("http://", "https://")):
            url = page_url
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        path = origin + (parts.path or "/")
        return cls(url=url, scheme=parts.scheme, origin=origin, folder=path[: path.rindex("/") + 1], path=path)


def find_links(tree: LexborHTMLParser, *, page_url: str, head: Head) -> dict[str, Found]:
    """Every http(s) link once, in the order of the page. One plain link to a page outweighs its nofollow twin."""
    base = Base.of(page_url, head.base_href)
    found: dict[str, Found] = {}
    for neighbour in head.neighbours:
        if url := absolute(neighbour, base=base):
            found[url] = (LinkKind.LINK_KIND_PAGINATION, head.nofollow)
    origin, page_nofollow = base.origin, head.nofollow
    for node in tree.tags("a"):
        attributes = node.attributes
        href = attributes.get("href")
        if not href:
            continue
        url, kind = _rooted(origin, href) if href[0] == "/" else _looked_at(absolute(href, base=base))
        if not url:
            continue
        nofollow = page_nofollow
        # Few links have one, and this runs for every link of every page.
        if "rel" in attributes:
            rel = attributes["rel"] or ""
            nofollow = nofollow or "nofollow" in rel.lower()
            if rel in ("next", "prev"):
                kind = LinkKind.LINK_KIND_PAGINATION
        if url not in found:
            found[url] = (kind, nofollow)
            if len(found) >= MAX_LINKS:
                break
        elif not nofollow and found[url][1]:
            found[url] = (found[url][0], False)
    return found


# Navigation repeats from page to page, so most answers are already known.
@lru_cache(maxsize=16_384)
def _rooted(origin: str, href: str) -> tuple[str, LinkKind.ValueType]:
    """For a link that starts with a slash only the origin matters, or the scheme."""
    return _looked_at(absolute(href, base=Base.of(origin + "/", "")))


def _looked_at(url: str) -> tuple[str, LinkKind.ValueType]:
    return url, kind_of(url) if url else LinkKind.LINK_KIND_OTHER


def as_messages(found: Mapping[str, Found]) -> list[Link]:
    return [Link(url=url, kind=kind, nofollow=nofollow) for url, (kind, nofollow) in found.items()]


def absolute(href: str, *, base: Base) -> str:
    """The address without its fragment, or nothing when it is no page of the web."""
    href = href.strip(_SPACE)
    if not href or len(href) > MAX_URL:
        return ""
    if "\n" in href or "\t" in href or "\r" in href:
        href = href.replace("\n", "").replace("\t", "").replace("\r", "")
    if " " in href:
        href = href.replace(" ", "%20")
    if "#" in href:
        href = href.partition("#")[0]
        if not href:
            return ""
    # urljoin costs as much as parsing the page; only dot segments and oddities need it.
    first = href[0]
    if href.startswith(("https://", "http://")):
        url = href
    elif first == "." or "/." in href:
        url = _join(base.url, href)
    elif first == "/":
        url = base.origin + href if href[1:2] != "/" else f"{base.scheme}:{href}"
    elif first == "?":
        url = base.path + href
    elif scheme := _SCHEME.match(href):
        url = _join(base.url, scheme[0].lower() + href[scheme.end() :])
    else:
        url = base.folder + href
    return url if url.startswith(("http://", "https://")) and len(url) <= MAX_URL else ""


def _join(base: str, href: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError:
        return ""


@lru_cache(maxsize=16_384)
def kind_of(url: str) -> LinkKind.ValueType:
    if _PAGINATION.search(url):
        return LinkKind.LINK_KIND_PAGINATION
    if _ARCHIVE.search(url, 8):
        return LinkKind.LINK_KIND_ARCHIVE
    if _ITEM.search(url, 8):
        return LinkKind.LINK_KIND_ITEM
    return LinkKind.LINK_KIND_OTHER


def split(links: list[Link]) -> Iterator[list[Link]]:
    """Parts of at most 1,000 links and 256 KB; always at least one, possibly empty."""
    weights = [size + 4 for size in map(Link.ByteSize, links)]
    # Nearly every page is one part, and this is the short way to know.
    if len(links) <= PART_LINKS and sum(weights) <= PART_BYTES:
        yield links
        return
    part: list[Link] = []
    size = 0
    for link, weight in zip(links, weights, strict=True):
        if part and (len(part) >= PART_LINKS or size + weight > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(link)
        size += weight
    yield part
