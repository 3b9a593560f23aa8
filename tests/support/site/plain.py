"""A plain site of numbered pages, on one port or on many, for tests of pace and of sheer numbers."""

from __future__ import annotations

from pathlib import Path

from tests.support.site.serving import Answer, Site

WORDS = b"<p>Limpets hold on to the rock through every tide and come back to the same place.</p>\n"


class Plain(Site):
    """Pages /p/0 to /p/N-1 on each of its ports; `/` links to all of them. Every port is a host of its own."""

    def __init__(
        self,
        pages: int = 100,
        *,
        ports: int = 1,
        size: int = 4096,
        latency: float = 0.0,
        host: str = "127.0.0.1",
        port: int = 0,
        log_file: Path | None = None,
    ) -> None:
        super().__init__(host=host, port=port, ports=ports, log_file=log_file)
        self.pages = pages
        self._latency = latency
        links = "".join(f'<li><a href="/p/{number}">Page {number}</a></li>\n' for number in range(pages))
        self._home = _document("Plain site", f"<ul>\n{links}</ul>", size=0)
        self._bodies = [_document(f"Page {number}", f"<p>This is {number}.</p>", size=size) for number in range(pages)]

    def page_urls(self, at: int = 0) -> list[str]:
        """The numbered pages of the site's `at`-th port."""
        return [f"{self.urls[at]}/p/{number}" for number in range(self.pages)]

    def all_page_urls(self) -> list[str]:
        return [url for at in range(len(self.urls)) for url in self.page_urls(at)]

    def answer(self, path: str, *, origin: str) -> Answer:
        if path == "/":
            return Answer(self._home, after_seconds=self._latency)
        number = path.removeprefix("/p/")
        if path.startswith("/p/") and number.isdecimal() and int(number) < self.pages:
            return Answer(self._bodies[int(number)], after_seconds=self._latency)
        return Answer(b"Not here.\n", status=404, content_type="text/plain; charset=utf-8")


def _document(title: str, inner: str, *, size: int) -> bytes:
    start = f"<!doctype html>\n<html><head><title>{title}</title></head>\n<body><h1>{title}</h1>\n{inner}\n".encode()
    end = b"</body></html>\n"
    filler = max(0, size - len(start) - len(end))
    # Whole paragraphs, then a comment's worth of spaces up to the exact size.
    return start + WORDS * (filler // len(WORDS)) + b" " * (filler % len(WORDS)) + end
