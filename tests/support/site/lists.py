"""A site of lists: each generation has its own lists and items, so that what a run found can be told from the run before."""

from __future__ import annotations

import re

from tests.support.site.plain import WORDS
from tests.support.site.serving import Answer, Site

LIST = re.compile(r"/g(\d+)/list/(\d+)(?:\?page=(\d+))?")
ITEM = re.compile(r"/g\d+/p/[\w-]+")
TEXT = "text/plain; charset=utf-8"


class Lists(Site):
    """/g1/list/0?page=2 is the second page of the first list of generation 1. Every list shares an item with its neighbour."""

    def __init__(self, *, lists: int = 12, pages: int = 3, per_page: int = 5, latency: float = 0.0) -> None:
        super().__init__()
        self.lists, self.pages, self.per_page = lists, pages, per_page
        self._latency = latency
        # Lists that are not there: (generation, list).
        self.gone: set[tuple[int, int]] = set()

    def start_urls(self, generation: int) -> list[str]:
        return [f"{self.url}/g{generation}/list/{number}" for number in range(self.lists)]

    def item_urls(self, generation: int) -> set[str]:
        """All that a whole run of this generation finds."""
        return {
            f"{self.url}/g{generation}/p/{item}"
            for number in range(self.lists)
            for page in range(self.pages)
            for item in self._items(number, page)
        }

    def answer(self, path: str, *, origin: str) -> Answer:
        listed = LIST.fullmatch(path)
        if listed is not None:
            generation, number, page = (int(part or 1) for part in listed.groups())
            if number < self.lists and page <= self.pages and (generation, number) not in self.gone:
                return Answer(self._list(generation, number, page), after_seconds=self._latency)
        elif ITEM.fullmatch(path):
            return Answer(_document("<p>This is an item.</p>\n"), after_seconds=self._latency)
        return Answer(b"Not here.\n", status=404, content_type=TEXT, after_seconds=self._latency)

    def _items(self, number: int, page: int) -> list[str]:
        """Pages count from 0 here."""
        shared = [f"shared-{number}-{page}", f"shared-{(number + 1) % self.lists}-{page}"]
        return [*(f"{number}-{page}-{at}" for at in range(self.per_page)), *shared]

    def _list(self, generation: int, number: int, page: int) -> bytes:
        links = "".join(
            f'<li><a href="/g{generation}/p/{item}">{item}</a></li>\n' for item in self._items(number, page - 1)
        )
        if page < self.pages:
            links += f'<li><a rel="next" href="/g{generation}/list/{number}?page={page + 1}">Next</a></li>\n'
        return _document(f"<ul>\n{links}</ul>\n")


def _document(inner: str) -> bytes:
    text = f"<!doctype html>\n<html><head><title>A list</title></head>\n<body><h1>A list</h1>\n{inner}"
    return text.encode() + WORDS * 8 + b"</body></html>\n"
