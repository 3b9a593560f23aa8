"""What a robots.txt allows (RFC 9309), how slow it asks us to be, and which sitemaps it names. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from protego import Protego

# Only this much counts.
MOST_BYTES = 500 << 10
MOST_SITEMAPS = 1000


@dataclass(frozen=True)
class Rules:
    """The rules of one origin. Without any, everything is allowed."""

    allows_all: bool = True
    _book: Protego | None = field(default=None, repr=False)

    def allow(self, url: str, *, agent: str) -> bool:
        return self.allows_all or self._book is None or bool(self._book.can_fetch(url, agent))

    def delay(self, agent: str) -> float:
        """Seconds between two requests; 0 where it asks for nothing."""
        asked = self._book.crawl_delay(agent) if self._book is not None else None
        return max(0.0, float(asked)) if asked is not None else 0.0

    @property
    def sitemaps(self) -> list[str]:
        if self._book is None:
            return []
        return [text for text in list(self._book.sitemaps)[:MOST_SITEMAPS] if text.startswith(("http://", "https://"))]


ALL_ALLOWED = Rules()


def text_of(body: bytes) -> str:
    """UTF-8 whatever it claims to be; NUL is dropped, which PostgreSQL does not take."""
    return body[:MOST_BYTES].decode("utf-8", "replace").lstrip("\ufeff").replace("\x00", "")


def read_rules(content: str) -> Rules:
    if not content.strip():
        return ALL_ALLOWED
    book = Protego.parse(content)
    return Rules(allows_all="disallow" not in content.lower(), _book=book)
