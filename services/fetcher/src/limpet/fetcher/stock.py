"""Leases that orders gave back unused, for the next order of the same kind. Pure: times are of any steady clock."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant
from limpet.fetcher.via import Via


class Shelf(NamedTuple):
    """Orders that may use each other's leases."""

    domain: str
    session_key: str
    direct_allowed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Leased:
    """A lease in hand."""

    grant: Grant
    shelf: Shelf
    # The last moment at which an order as long as the first one can still be carried out with it.
    keep_until: float
    # The broker has taken it back by then.
    ends_at: float

    @property
    def via(self) -> Via | None:
        """None for the direct way."""
        if self.grant.direct:
            return None
        grant = self.grant
        return Via(grant.protocol, grant.host, grant.port, grant.username, grant.password)


class Stock:
    def __init__(self) -> None:
        self._shelves: defaultdict[Shelf, list[Leased]] = defaultdict(list)

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values()))

    def put(self, leased: Leased) -> None:
        self._shelves[leased.shelf].append(leased)

    def take(self, shelf: Shelf, *, needed_until: float) -> Leased | None:
        """Of those that last long enough the one that ends first."""
        kept = self._shelves.get(shelf)
        if not kept:
            return None
        fit = [leased for leased in kept if leased.ends_at >= needed_until]
        if not fit:
            return None
        found = min(fit, key=lambda leased: leased.ends_at)
        self.remove(found)
        return found

    def remove(self, leased: Leased) -> bool:
        """False when an order has taken it."""
        kept = self._shelves.get(leased.shelf, [])
        if leased not in kept:
            return False
        kept.remove(leased)
        if not kept:
            del self._shelves[leased.shelf]
        return True

    def clear(self) -> list[Leased]:
        every = [leased for kept in self._shelves.values() for leased in kept]
        self._shelves.clear()
        return every
