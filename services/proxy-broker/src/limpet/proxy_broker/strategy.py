"""Who gets which proxy: least recently used first within priority, and never more than a proxy has room for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A proxy that may be leased now for one group of wants (a domain and a country)."""

    group: int
    proxy_id: int
    priority: int
    room: int
    protocol: str
    host: str
    port: int
    username: str
    password_sealed: str | None


def choose(groups: Sequence[int], candidates: Iterable[Candidate]) -> list[Candidate | None]:
    """One candidate or none for each want, named by its group; candidates come least recently used first."""
    heaps: dict[int, list[tuple[int, int, int, Candidate]]] = defaultdict(list)
    for rank, candidate in enumerate(candidates):
        heaps[candidate.group].append((candidate.priority, 0, rank, candidate))
    for heap in heaps.values():
        heapify(heap)
    given: dict[int, int] = defaultdict(int)
    return [_next(heaps[group], given) for group in groups]


def _next(heap: list[tuple[int, int, int, Candidate]], given: dict[int, int]) -> Candidate | None:
    while heap:
        priority, seen, rank, candidate = heap[0]
        turns = given[candidate.proxy_id]
        if turns >= candidate.room:
            heappop(heap)
        elif turns != seen:  # another group took it since: it has moved back in the queue
            heapreplace(heap, (priority, turns, rank, candidate))
        else:
            given[candidate.proxy_id] += 1
            return candidate
    return None
