"""A process that watches itself: work that stalls, a loop that is blocked, a connection that is gone for good."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable

import asyncpg
import nats.errors
import structlog
from prometheus_client import Counter

from limpet.kit.bus import Bus
from limpet.kit.errors import CannotRecover
from limpet.kit.ops import Readiness
from limpet.kit.pg import LOST, Pool
from limpet.kit.stall import Piece

log = structlog.get_logger()

STALLS = Counter("limpet_selfcheck_stalls_total", "Times that work in hand was found not to move.")

# As in sysexits.h. docs/operations.md lists all exit codes.
EXIT_NATS_CLOSED = 69
EXIT_STALLED = 70
EVERY = 5.0
# Time for a piece that was broken off to let go, as a share of the threshold.
GRACE = 0.1
CHECK_SECONDS = 5.0
MOST_TOLD = 10
# Says what is wrong with the network; nothing when it is fine.
Probe = Callable[[], Awaitable[str]]


class Selfcheck:
    """A stall that a lost server explains is waited out. Any other is broken off; what survives that ends the process."""

    def __init__(
        self, bus: Bus, pool: Pool, readiness: Readiness, *, after: float, network: Probe | None = None
    ) -> None:
        self._bus = bus
        self._pool = pool
        self._readiness = readiness
        self._after = after
        self._network = network
        self._beat = time.monotonic()
        self._told: set[Piece] = set()
        # When what was found stalled without an excuse was broken off.
        self._broken_off: float | None = None

    async def run(self) -> None:
        """A part."""
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch_loop, args=(stop,), name="selfcheck", daemon=True)
        watcher.start()
        try:
            while True:
                self._beat = time.monotonic()
                if self._bus.client.is_closed:
                    raise CannotRecover(
                        f"NATS closed the connection: {self._bus.client.last_error!r}", EXIT_NATS_CLOSED
                    )
                await self.look(time.monotonic())
                await asyncio.sleep(min(EVERY, self._after / 20))
        finally:
            stop.set()

    async def look(self, now: float) -> None:
        stalled = self._bus.in_hand.stalled(now=now, after=self._after)
        if not stalled:
            if self._told:
                log.info("stall_ended", count=len(self._told))
                self._told.clear()
            self._broken_off, self._readiness.stuck = None, ""
            return
        if self._broken_off is not None:
            if now - self._broken_off > self._after * GRACE:
                raise CannotRecover(f"{stalled[0].what} does not move and cannot be broken off", EXIT_STALLED)
            return
        await self._diagnose(stalled, now)

    async def _diagnose(self, stalled: list[Piece], now: float) -> None:
        database, nats_, network = await asyncio.gather(self._ask_database(), self._ask_nats(), self._ask_network())
        away = bool(database or nats_ or network)
        fresh = [piece for piece in stalled if piece not in self._told]
        if fresh:
            STALLS.inc()
            log.error(
                "stall_detected",
                count=len(stalled),
                threshold_seconds=self._after,
                database=database or "ok",
                nats=nats_ or "ok",
                network=network or ("ok" if self._network is not None else "not checked"),
                in_hand=[
                    {
                        "what": piece.what,
                        "in_hand_seconds": round(now - piece.since, 1),
                        "silent_seconds": round(piece.silent(now), 1),
                        "where": piece.where(),
                    }
                    for piece in stalled[:MOST_TOLD]
                ],
            )
            self._told.update(fresh)
        if not away:
            self._readiness.stuck = f"{stalled[0].what} has not moved for {stalled[0].silent(now):.0f} s"
            self._broken_off = now
            for piece in stalled:
                piece.break_off()

    async def _ask_database(self) -> str:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._pool.fetchval("SELECT 1")
        except (*LOST, asyncpg.PostgresError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def _ask_nats(self) -> str:
        if not self._bus.client.is_connected:
            return "not connected"
        try:
            await self._bus.client.flush(timeout=int(CHECK_SECONDS))
        except (nats.errors.Error, OSError, TimeoutError) as error:
            return repr(error)
        return ""

    async def _ask_network(self) -> str:
        return await self._network() if self._network is not None else ""

    def _watch_loop(self, stop: threading.Event) -> None:
        """In a thread: a loop that is blocked can neither answer /livez nor end the process by itself."""
        main = threading.main_thread().ident or 0
        every = min(EVERY, self._after / 20)
        last = time.monotonic()
        while not stop.wait(every):
            now, slept = time.monotonic(), time.monotonic() - last
            last = now
            # Where the whole process was stopped, nothing was blocked.
            if slept > 10 * every:
                self._beat = now
            if now - self._beat > self._after:
                frame = sys._current_frames().get(main)
                stack = traceback.format_stack(frame)[-3:] if frame is not None else []
                log.critical("loop_blocked", seconds=round(now - self._beat, 1), where="".join(stack))
                os._exit(EXIT_STALLED)
