"""The scheduler database's clock, read over NATS, with a known bound of its error."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from limpet.contracts.events.v1.fetch_pb2 import ClockReply, ClockRequest
from limpet.fetcher.metrics import CLOCK_ERROR
from limpet.kit.bus import Bus, subject_of
from limpet.kit.clock import to_seconds
from limpet.kit.errors import Retryable
from limpet.kit.ops import Readiness

EVERY = 2.0
# Until there is a reading nothing can be fetched: ask faster.
EVERY_WITHOUT = 0.25
BURST = 5
KEPT = 15
MAX_AGE = 30.0
# A monotonic clock may run off by this share of the time since a reading; quartz is far better.
DRIFT = 1e-4
TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: database clock minus our steady clock, at a moment of our steady clock."""

    at: float
    offset: float
    error: float

    def error_at(self, steady: float) -> float:
        return self.error + DRIFT * (steady - self.at)

    def agrees(self, later: Sample) -> bool:
        return abs(self.offset - later.offset) <= self.error_at(later.at) + later.error


def sample_of(*, asked: float, answered: float, database: float) -> Sample:
    """The database read its clock between the two moments: the midpoint is off by half the round trip at most."""
    middle = (asked + answered) / 2
    return Sample(at=answered, offset=database - middle, error=(answered - asked) / 2)


class Readings:
    """The last samples. Pure: the caller says what its steady clock shows."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._best: Sample | None = None

    def add(self, sample: Sample) -> None:
        # A reading that cannot be true beside the new one is of before a jump: a failover, or our machine slept.
        if any(not known.agrees(sample) for known in self._samples):
            self._samples.clear()
        self._samples.append(sample)
        # All errors grow at the same rate, so the best one stays the best until the next sample.
        self._best = min(self._samples, key=lambda known: known.error_at(sample.at))

    def fresh(self, steady: float) -> bool:
        return bool(self._samples) and steady - self._samples[-1].at < MAX_AGE

    def now(self, steady: float) -> tuple[float, float]:
        """Database seconds and the bound of their error. Without a sample the error is infinite."""
        if self._best is None:
            return 0.0, float("inf")
        return steady + self._best.offset, self._best.error_at(steady)


class ClockSync:
    def __init__(self, bus: Bus, *, readiness: Readiness | None = None) -> None:
        self._bus = bus
        self._readiness = readiness
        self._readings = Readings()

    @property
    def fresh(self) -> bool:
        return self._readings.fresh(time.monotonic())

    def now(self) -> tuple[float, float]:
        return self._readings.now(time.monotonic())

    async def burst(self) -> None:
        """A few readings at once: the quickest of them is a good one. Stops at the first that fails."""
        for _ in range(BURST):
            if not await self.read():
                break

    async def run(self) -> None:
        """A part: a burst as soon as the scheduler answers, then a reading every two seconds."""
        while True:
            if self.fresh:
                await self.read()
            else:
                await self.burst()
            fresh = self.fresh
            if self._readiness is not None:
                self._readiness.set("clock", ok=fresh, why="the scheduler does not answer on clock.read")
            CLOCK_ERROR.set(self.now()[1])
            await asyncio.sleep(EVERY if fresh else EVERY_WITHOUT)

    async def read(self) -> bool:
        asked = time.monotonic()
        try:
            answer = await self._bus.request(
                subject_of(ClockRequest), ClockRequest().SerializeToString(), timeout=TIMEOUT
            )
        except Retryable:
            return False
        answered = time.monotonic()
        database = to_seconds(ClockReply.FromString(answer).now_time)
        self._readings.add(sample_of(asked=asked, answered=answered, database=database))
        return True
