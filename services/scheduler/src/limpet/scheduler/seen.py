"""Links that were decided about, so that most links of a site cost one look at a table in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

Key = tuple[int, int]


@dataclass
class Seen:
    """By batch and domain of the page: the same link may be taken in one and left out in another."""

    most: int = 400_000
    _links: OrderedDict[Key, dict[str, None]] = field(default_factory=OrderedDict)
    _size: int = 0

    def of(self, key: Key) -> dict[str, None]:
        """What was decided there, to look into."""
        found = self._links.get(key)
        if found is None:
            found = self._links[key] = {}
        return found

    def add(self, key: Key, links: Iterable[str]) -> None:
        """These need no second look. The oldest are forgotten, which costs a second look at most."""
        found = self.of(key)
        before = len(found)
        found.update(dict.fromkeys(links))
        self._size += len(found) - before
        while self._size > self.most:
            oldest, links_of = next(iter(self._links.items()))
            gone = list(islice(links_of, max(1, len(links_of) // 4)))
            for link in gone:
                del links_of[link]
            self._size -= len(gone)
            if not links_of and oldest != key:
                del self._links[oldest]
            else:
                self._links.move_to_end(oldest)
