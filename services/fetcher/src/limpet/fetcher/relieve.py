"""Relieve memory: take nothing more above the soft limit, end the process when that does not help."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from limpet.fetcher.metrics import MEMORY_BYTES
from limpet.fetcher.pressure import Limits, Pressure
from limpet.fetcher.slots import Slots
from limpet.kit.errors import CannotRecover
from limpet.kit.memory import Memory

log = structlog.get_logger()

EXIT_MEMORY = 71
EVERY = 1.0
NAME = "memory"


@dataclass
class Relieve:
    slots: Slots
    limits: Limits
    read: Callable[[], Memory]
    # Time for orders in hand to finish, and then for memory to come back.
    seconds: float
    every: float = EVERY
    _before: Pressure = field(default=Pressure.NONE)

    async def run(self) -> None:
        """A part."""
        while True:
            await self.look()
            await asyncio.sleep(self.every)

    async def look(self) -> None:
        memory = self._read()
        pressure = self.limits.pressure(memory.used, limit=memory.limit, before=self._before)
        before, self._before = self._before, pressure
        if pressure == Pressure.NONE:
            if before != Pressure.NONE:
                self.slots.go_on(NAME)
                log.info("memory_relieved", used_bytes=memory.used)
            return
        log.warning(
            "memory_limit_reached", level=pressure.name.lower(), used_bytes=memory.used, limit_bytes=memory.limit
        )
        self.slots.hold_off(NAME, f"memory is above its {pressure.name.lower()} limit")
        await self._drain(pressure)

    async def _drain(self, pressure: Pressure) -> None:
        """Let go of what is in hand and see whether that brought memory back."""
        await self.slots.emptied(self.seconds)
        _give_back()
        give_up = time.monotonic() + self.seconds
        while True:
            memory = self._read()
            now = self.limits.pressure(memory.used, limit=memory.limit, before=self._before)
            if now == Pressure.NONE:
                return
            if time.monotonic() >= give_up or Pressure.HARD in (now, pressure):
                raise CannotRecover(f"{memory.used} bytes in use with {self.slots.in_hand} orders in hand", EXIT_MEMORY)
            await asyncio.sleep(self.every)

    def _read(self) -> Memory:
        memory = self.read()
        MEMORY_BYTES.set(memory.used)
        return memory


def _give_back() -> None:
    """Free memory goes back to the system only when it is asked for, and only where the C library can."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
