"""The pulse of a worker: what it did lately, sent to whoever watches."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import psutil
from google.protobuf.timestamp_pb2 import Timestamp

from limpet.contracts.events.v1.beat_pb2 import Beat, BreakerState
from limpet.kit.breaker import Breaker
from limpet.kit.bus import Bus
from limpet.kit.memory import read_memory

EVERY = 2.0


class Pulse:
    """Counting is cheap: one call per piece of work or per batch."""

    def __init__(
        self, bus: Bus, *, service: str, worker_id: str, capacity: int = 0, breakers: Iterable[Breaker] = ()
    ) -> None:
        self._bus = bus
        self._service, self._worker_id, self._capacity = service, worker_id, capacity
        self._breakers = tuple(breakers)
        self._started = time.time()
        self._last_work = self._started
        self._done = self._errors = self._errors_in_a_row = 0
        self._latencies: deque[float] = deque(maxlen=512)
        self.in_hand: Callable[[], int] = lambda: 0
        self.paused: Callable[[], str] = str
        self.tasks_by_status: Callable[[], Awaitable[dict[str, int]]] | None = None

    def done(self, count: int = 1) -> None:
        self._done += count
        self._errors_in_a_row = 0
        self._last_work = time.time()

    def failed(self) -> None:
        self._errors += 1
        self._errors_in_a_row += 1

    def latency(self, milliseconds: float) -> None:
        self._latencies.append(milliseconds)

    async def run(self) -> None:
        """A part: a beat at once, then every two seconds."""
        process = psutil.Process()
        process.cpu_percent()
        while True:
            await self._bus.notify(await self._beat(process), suffix=self._service)
            await asyncio.sleep(EVERY)

    async def _beat(self, process: psutil.Process) -> Beat:
        latencies = sorted(self._latencies)
        paused = self.paused()
        tasks = await self.tasks_by_status() if self.tasks_by_status is not None else {}
        return Beat(
            worker_id=self._worker_id,
            service=self._service,
            start_time=_stamp(self._started),
            beat_time=_stamp(time.time()),
            last_work_time=_stamp(self._last_work),
            capacity=0 if paused else self._capacity,
            in_hand=self.in_hand(),
            done_total=self._done,
            errors_total=self._errors,
            errors_in_a_row=self._errors_in_a_row,
            memory_bytes=read_memory(process).used,
            cpu_percent=process.cpu_percent(),
            average_latency_ms=sum(latencies) / len(latencies) if latencies else 0.0,
            p95_latency_ms=latencies[int(len(latencies) * 0.95)] if latencies else 0.0,
            breakers=[_state(breaker) for breaker in self._breakers],
            tasks_by_status=tasks,
            paused=paused,
        )


def _stamp(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromNanoseconds(int(seconds * 1e9))
    return stamp


def _state(breaker: Breaker) -> BreakerState:
    return BreakerState(
        name=breaker.name,
        state=breaker.state.value,
        failure_count=breaker.failure_count,
        success_count=breaker.success_count,
        total_calls=breaker.total_calls,
        total_successes=breaker.total_successes,
        total_failures=breaker.total_failures,
        total_rejections=breaker.total_rejections,
    )
