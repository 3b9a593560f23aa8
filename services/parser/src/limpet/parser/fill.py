"""Which fields of the items of pages are filled: counted in memory, no row and no round trip per page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from limpet.parser.differences import is_empty
from limpet.parser.fillrate import PAGES

# A list of hundreds of items says no more of its parser than its first ones.
ITEMS_A_PAGE: Final = 20
MAX_FIELDS: Final = 100
MAX_NAME: Final = 100


class Group(NamedTuple):
    hour: datetime
    domain: str
    parser: str


@dataclass(slots=True)
class Fill:
    pages: int = 0
    pages_with_items: int = 0
    items: int = 0
    filled: Counter[str] = field(default_factory=Counter)

    def add(self, items: Sequence[str]) -> None:
        self.pages += 1
        self.pages_with_items += bool(items)
        for text in items[:ITEMS_A_PAGE]:
            item = orjson.loads(text)
            if not isinstance(item, dict):
                continue
            self.items += 1
            for name, value in item.items():
                # A field that is there and empty is a field.
                name = name[:MAX_NAME]
                if name in self.filled or len(self.filled) < MAX_FIELDS:
                    self.filled[name] += not is_empty(value)

    def rows(self) -> list[tuple[str, int, int]]:
        """Field, seen, filled."""
        counted = [(name, self.items, filled) for name, filled in self.filled.items() if name != PAGES]
        return [(PAGES, self.pages, self.pages_with_items), *counted]


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
