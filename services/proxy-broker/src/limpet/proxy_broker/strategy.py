"""Who gets which proxy: least recently used first within priority, and never more than a proxy has room for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple


class Candidate(NamedTuple):
    """A proxy that may be leased now for one line of wants. A tuple: one is made for nearly every lease."""

    group: int
    proxy_id: int
    priority: int
    room: int
    probe: str
    protocol: str
    host: str
    port: int
    username: str
    password_sealed: str | None


_Heap = list[tuple[int, int, int, Candidate]]


def choose(
    groups: Sequence[int], candidates: Iterable[Candidate], *, given: Counter[int], loyal: frozenset[int] = frozenset()
) -> list[Candidate | None]:
    """One candidate or none for each want, named by its group; candidates come least recently used first.

    `given` counts what each proxy has given in this call and goes on counting. A loyal group stays with the first it gets.
    """
    heaps: dict[int, _Heap] = defaultdict(list)
    for rank, candidate in enumerate(candidates):
        heaps[candidate.group].append((candidate.priority, given[candidate.proxy_id], rank, candidate))
    for heap in heaps.values():
        heapify(heap)
    chosen: list[Candidate | None] = []
    for group in groups:
        found = _next(heaps[group], given)
        if found is not None and group in loyal:
            heaps[group] = [(0, given[found.proxy_id], 0, found)]
        chosen.append(found)
    return chosen


def _next(heap: _Heap, given: Counter[int]) -> Candidate | None:
    while heap:
        priority, seen, rank, candidate = heap[0]
        turns = given[candidate.proxy_id]
        if turns >= candidate.room:
            heappop(heap)
        elif turns != seen:  # another group took it since: it has moved back in the queue
            heapreplace(heap, (priority, turns, rank, candidate))
        else:
            given[candidate.proxy_id] = turns + 1
            return candidate
    return None
