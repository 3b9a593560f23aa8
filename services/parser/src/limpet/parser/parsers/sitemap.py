"""Sitemaps as sitemaps.org has them: of pages, of other sitemaps, as plain text; gzip or not. A feed will do as well."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind
from limpet.parser.dates import stamp, w3c
from limpet.parser.inflate import CutShort, start_of
from limpet.parser.links import Base, absolute, kind_of
from limpet.parser.parsers import Found, Parser
from limpet.parser.parsers import feed as feeds
from limpet.parser.xmlstream import Enough, Fields, Head, Shape, read_entries
from limpet.parser.xmltext import root_of, texts

MAX_ENTRIES: Final = 50_000
MAX_LINE: Final = 64 << 10
_FORMS: Final = {"url": "urlset", "sitemap": "sitemapindex"}
ROOTS: Final = frozenset(_FORMS.values())


def read(body: bytes, url: str, content_type: str) -> Found:
    """Raises ValueError for what is no sitemap, or a hostile one."""
    root = root_of(start_of(body))
    if root in feeds.ROOTS:
        return feeds.read(body, url, content_type)
    entries = Entries(Base.of(url, ""))
    if root:
        head = read_entries(body, entries.shape)
        if head.root not in ROOTS:
            raise ValueError(f"the root of a sitemap is urlset or sitemapindex, not {(head.root or root)[:50]!r}")
        form, note = head.root, head.note
    else:
        form, note = "text", entries.read_lines(body)
        if not entries.links and not entries.is_blank:
            raise ValueError("no line is an address of the web")
    return Found(
        items=[entries.summary(form, note)], links=list(entries.links.values()), page_type="sitemap", note=note
    )


class Entries:
    """The addresses that a sitemap lists, each once."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.links: dict[str, Link] = {}
        self.newest: datetime | None = None
        self.left_out = 0
        self.is_blank = True

    def shape(self, head: Head) -> Shape:
        self.links, self.newest, self.left_out = {}, None, 0
        form = head

        def on_entry(name: str, fields: Fields) -> None:
            # An index lists sitemaps and nothing else; so does a sitemap of pages.
            if _FORMS[name] == form.root:
                self.add(name, fields)

        return Shape(frozenset(_FORMS), frozenset({"loc", "lastmod"}), on_entry)

    def add(self, name: str, fields: Fields) -> None:
        loc = fields.get("loc")
        modified = fields.get("lastmod")
        self.put(
            loc[0].text if loc else "",
            is_sitemap=name == "sitemap",
            moment=w3c(modified[0].text) if modified else None,
        )

    def put(self, loc: str, *, is_sitemap: bool = False, moment: datetime | None = None) -> None:
        if max(len(self.links), self.left_out) >= MAX_ENTRIES:
            raise Enough(f"more than {MAX_ENTRIES} entries")
        url = absolute(loc, base=self.base)
        if not url or url in self.links:
            self.left_out += 1
            return
        kind = LinkKind.LINK_KIND_SITEMAP if is_sitemap else kind_of(url)
        self.links[url] = link = Link(url=url, kind=kind)
        if moment is not None:
            link.lastmod_time.CopyFrom(stamp(moment))
            if self.newest is None or moment > self.newest:
                self.newest = moment

    def read_lines(self, body: bytes) -> str:
        """One address per line. What a line holds instead is left out."""
        try:
            for line in _lines(body):
                if line := line.strip():
                    self.is_blank = False
                    if line.startswith(("http://", "https://")):
                        self.put(line)
                    else:
                        self.left_out += 1
        except (CutShort, Enough) as end:
            return str(end)
        return ""

    def summary(self, form: str, note: str) -> dict[str, object]:
        return {
            "form": form,
            "entries": len(self.links),
            "left_out": self.left_out,
            "newest": self.newest.isoformat() if self.newest else None,
            "note": note or None,
        }


def _lines(body: bytes) -> Iterator[str]:
    rest = ""
    for text in texts(body, mend=False):
        *lines, rest = (rest + text).split("\n")
        yield from lines
        if len(rest) > MAX_LINE:
            yield rest
            rest = ""
    yield rest


PARSER: Final = Parser(name="sitemap", version="1", page_type="sitemap", read=read)
