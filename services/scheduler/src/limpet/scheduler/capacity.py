"""How many orders may be out: about twice what the fetchers that were heard of can hold."""

from __future__ import annotations

import time

from limpet.contracts.events.v1.beat_pb2 import Beat

SILENT_AFTER = 10.0


class Capacity:
    """Only what may be fetched now is ever in JetStream, so a wiped store costs at most this many repeats."""

    def __init__(self, *, floor: int) -> None:
        self._floor = floor
        # When each was heard of, what it can hold, and whether it takes nothing for now.
        self._fetchers: dict[str, tuple[float, int, bool]] = {}

    async def on_beat(self, data: bytes) -> None:
        beat = Beat.FromString(data)
        self._fetchers[beat.worker_id] = (time.monotonic(), beat.capacity, bool(beat.paused))

    @property
    def fetchers(self) -> int:
        """How many were heard of lately."""
        return len(self._fetchers)

    def window(self, now: float) -> int:
        self._fetchers = {name: seen for name, seen in self._fetchers.items() if now - seen[0] < SILENT_AFTER}
        if self._fetchers and all(paused for _, _, paused in self._fetchers.values()):
            # An order would only wait for its permit to expire.
            return 0
        return max(self._floor, 2 * sum(capacity for _, capacity, _ in self._fetchers.values()))
