"""The links of a page: absolute, each once, with what they seem to lead to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel
from limpet.parser.neighbours import BY_HEAD, BY_REL, Neighbours, named, shown
from limpet.parser.pagefacts import Head

MAX_URL: Final = 2_048
MAX_LINKS: Final = 50_000
PART_LINKS: Final = 1_000
PART_BYTES: Final = 256 << 10

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.\-]*:")
_SPACE: Final = " \t\n\r\f\x00"
_CUT: Final = re.compile(r"((https?)://[^/?#]*)([^?#]*)")
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
        cut = _CUT.match(url)
        if cut is None:
            raise ValueError(f"{url!r} is no address of the web")
        origin, scheme = cut[1], cut[2]
        path = origin + (cut[3] or "/")
        return cls(url=url, scheme=scheme, origin=origin, folder=path[: path.rindex("/") + 1], path=path)


@dataclass(frozen=True, slots=True)
class Links:
    """Every http(s) link of a page once, in its order, with whether the page asks not to follow it."""

    nofollow: dict[str, bool] = field(default_factory=dict)
    # Those that the page itself names as its neighbours, by rel or in so many words.
    neighbours: set[str] = field(default_factory=set)
    # The one that leads on and the one that leads back.
    rels: dict[str, LinkRel.ValueType] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.nofollow)

    def kinds(self) -> Iterator[LinkKind.ValueType]:
        """Made only for who asks: it costs more than finding the links."""
        neighbours = self.neighbours
        return (LinkKind.LINK_KIND_PAGINATION if url in neighbours else kind_of(url) for url in self.nofollow)

    def messages(self, kinds: Iterable[LinkKind.ValueType]) -> list[Link]:
        rels = self.rels
        return [
            Link(url=url, kind=kind, nofollow=nofollow, rel=rels[url])
            if url in rels
            else Link(url=url, kind=kind, nofollow=nofollow)
            for (url, nofollow), kind in zip(self.nofollow.items(), kinds, strict=True)
        ]


def address_of(head: Head, *, page_url: str) -> str:
    """What the page names as its own address; empty where it names none that could be one."""
    return absolute(head.canonical, base=Base.of(page_url, head.base_href)) if head.canonical else ""


def find_links(tree: LexborHTMLParser, *, page_url: str, head: Head, follow: bool) -> Links:
    """One plain link to a page outweighs its nofollow twin. Which one leads on is read only where somebody follows."""
    base = Base.of(page_url, head.base_href)
    links = Links()
    found, neighbours, nearest = links.nofollow, links.neighbours, Neighbours(page_url)
    for word, neighbour in head.neighbours:
        if url := absolute(neighbour, base=base):
            found[url] = head.nofollow
            neighbours.add(url)
            nearest.hear(url, named(word), BY_HEAD)
    origin, longest, page_nofollow = base.origin, MAX_URL - len(base.origin), head.nofollow
    for node in tree.tags("a"):
        attributes = node.attributes
        href = attributes.get("href")
        if not href:
            continue
        # Most links of most pages: no fragment, space, dot segment or other host. Plain tests are faster than a pattern.
        if (
            href[0] == "/"
            and "#" not in href
            and " " not in href
            and "/." not in href
            and "//" not in href
            and len(href) <= longest
            and href.isprintable()
        ):
            url = origin + href
        elif not (url := absolute(href, base=base)):
            continue
        nofollow = page_nofollow
        if "rel" in attributes:
            rel = attributes["rel"] or ""
            nofollow = nofollow or "nofollow" in rel.lower()
            if direction := named(rel):
                neighbours.add(url)
                nearest.hear(url, direction, BY_REL)
        if follow and (sign := shown(node, attributes)) is not None:
            nearest.hear(url, *sign)
        if found.setdefault(url, nofollow) and not nofollow:
            found[url] = False
        if len(found) >= MAX_LINKS:
            break
    links.rels.update(nearest.rels())
    # A shop's "next" may lead to the next product: that is an item still.
    neighbours.update(url for url in links.rels if kind_of(url) != LinkKind.LINK_KIND_ITEM)
    return links


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
