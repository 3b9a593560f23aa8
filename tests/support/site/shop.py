"""A small shop with everything that a crawler meets in the first five minutes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.support.site.catalogue import Catalogue
from tests.support.site.serving import Answer, Site

SLOW, FLAKY, BUSY = "/special/slow", "/special/flaky", "/special/busy"
TEXT, XML = "text/plain; charset=utf-8", "application/xml"


class Shop(Site):
    """The shop. `delay` is every page's own latency; the specials are product pages too, once they let you in."""

    def __init__(
        self,
        products: int = 60,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        delay: float = 0.0,
        slow_seconds: float = 2.0,
        failures: int = 2,
        retry_after: int = 2,
        log_file: Path | None = None,
    ) -> None:
        super().__init__(host=host, port=port, log_file=log_file)
        self.catalogue = Catalogue(products, specials=[SLOW, FLAKY, BUSY])
        self._delay = delay
        self._slow_seconds = slow_seconds
        self._failures = failures
        self._retry_after = retry_after
        self._asked: Counter[str] = Counter()

    def reachable(self) -> set[str]:
        """Every page that links lead to from `/`, found by following them."""
        return {self.url + path for path in self.catalogue.reachable()}

    def product_urls(self) -> set[str]:
        """Every page that carries a product, the three specials included."""
        return {self.url + path for path in self.catalogue.product_paths}

    def answer(self, path: str, *, origin: str) -> Answer:
        self._asked[path] += 1
        if path == FLAKY and self._asked[path] <= self._failures:
            return Answer(b"Something broke.\n", status=500, content_type=TEXT, after_seconds=self._delay)
        if path == BUSY and self._asked[path] == 1:
            wait = {"Retry-After": str(self._retry_after)}
            return Answer(b"Too many requests.\n", status=429, content_type=TEXT, headers=wait)
        if (body := self.catalogue.pages.get(path)) is not None:
            return Answer(body, after_seconds=self._slow_seconds if path == SLOW else self._delay)
        if path == "/robots.txt":
            return Answer(self.catalogue.robots(origin).encode(), content_type=TEXT)
        if (text := self.catalogue.sitemap(path, origin=origin)) is not None:
            return Answer(text.encode(), content_type=XML)
        return Answer(b"There is no such page in this shop.\n", status=404, content_type=TEXT)
