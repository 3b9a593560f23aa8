"""Reports on their way to the broker: gathered for a moment, kept while it is away, dropped when nobody can use them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from itertools import islice

import structlog

from limpet.contracts.proxy.v1.proxy_service_pb2 import Used
from limpet.fetcher.broker import Broker
from limpet.fetcher.metrics import REPORTS_DROPPED

log = structlog.get_logger()

LINGER = 0.1
AGAIN_SECONDS = 1.0
MOST_TOGETHER = 500
MOST_WAITING = 20_000
# How long a process that stops goes on trying.
LAST_SECONDS = 3.0
LAST_AGAIN_SECONDS = 0.1

EXPIRED = REPORTS_DROPPED.labels("expired")
FULL = REPORTS_DROPPED.labels("full")
STOPPED = REPORTS_DROPPED.labels("stopped")


class Reports:
    """Nobody waits for a report: a lease that is never reported expires."""

    def __init__(self, broker: Broker, *, most: int = MOST_WAITING) -> None:
        self._broker = broker
        self._most = most
        # Each with the moment from which on the broker no longer has its lease.
        self._waiting: deque[tuple[Used, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, used: Used, *, ends_at: float) -> None:
        if len(self._waiting) >= self._most:
            # The oldest lease is the first that the broker takes back by itself.
            self._waiting.popleft()
            FULL.inc()
        self._waiting.append((used, ends_at))
        self._wake_in(LINGER)

    async def drain(self) -> None:
        """Send what has not been reported yet, as far as the broker takes it."""
        deadline = time.monotonic() + LAST_SECONDS
        while self._waiting or self._sending is not None:
            self._start()
            if self._sending is not None:
                await self._sending
            if self._waiting:
                if time.monotonic() >= deadline:
                    break
                await asyncio.sleep(LAST_AGAIN_SECONDS)
        self._cancel_timer()
        if self._waiting:
            log.warning("reports_dropped", count=len(self._waiting))
            STOPPED.inc(len(self._waiting))
            self._waiting.clear()

    def _wake_in(self, seconds: float) -> None:
        if self._timer is None and self._sending is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._start)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        self._cancel_timer()
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """One call at a time: what comes meanwhile makes the next one larger."""
        taken = True
        try:
            while taken and self._waiting:
                self._drop_expired()
                batch = list(islice(self._waiting, MOST_TOGETHER))
                if not batch:
                    break
                taken = await self._broker.report([used for used, _ in batch])
                if taken:
                    self._forget(batch)
        finally:
            self._sending = None
            if self._waiting:
                self._wake_in(LINGER if taken else AGAIN_SECONDS)

    def _forget(self, batch: list[tuple[Used, float]]) -> None:
        """Where there was no room meanwhile, some of them are gone already."""
        sent = {used.lease_id for used, _ in batch}
        while self._waiting and self._waiting[0][0].lease_id in sent:
            self._waiting.popleft()

    def _drop_expired(self) -> None:
        now = time.monotonic()
        kept = [one for one in self._waiting if one[1] > now]
        if len(kept) < len(self._waiting):
            EXPIRED.inc(len(self._waiting) - len(kept))
            self._waiting = deque(kept)
