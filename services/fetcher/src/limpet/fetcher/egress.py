"""The way out: whether anything can be reached from here, and a pause while nothing can."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, ReturnReason
from limpet.fetcher.slots import Slots
from limpet.kit.ops import Readiness

log = structlog.get_logger()

NAME = "network"
EVERY = 5.0
EVERY_DOWN = 2.0
CONNECT_SECONDS = 3.0
# What a lost network looks like from inside a request.
_SUSPECT = frozenset(
    {FailureKind.FAILURE_KIND_NETWORK, FailureKind.FAILURE_KIND_TIMEOUT, FailureKind.FAILURE_KIND_PROXY}
)


class Egress:
    """Down when none of the targets can be connected to. Without targets nothing is ever concluded."""

    def __init__(self, targets: Sequence[tuple[str, int]], slots: Slots, readiness: Readiness) -> None:
        self._targets = targets
        self._slots = slots
        self._readiness = readiness
        self._looking = asyncio.Lock()
        self._looks = 0
        self.down = ""

    async def run(self) -> None:
        """A part."""
        while self._targets:
            await self.look()
            await asyncio.sleep(EVERY_DOWN if self.down else EVERY)
        await asyncio.Event().wait()

    async def explains(self, kind: FailureKind.ValueType) -> bool:
        """Whether a request failed because nothing can be reached: then neither site nor proxy is to blame."""
        if not self._targets or kind not in _SUSPECT:
            return False
        return bool(self.down or await self.look())

    async def look(self) -> str:
        """What is wrong, found now; many callers in trouble cost one look."""
        seen = self._looks
        async with self._looking:
            if self._looks > seen + 1 or (self._looks > seen and self.down):
                return self.down
            errors = await asyncio.gather(*(_connect(host, port) for host, port in self._targets))
            self._looks += 1
            self._conclude("" if "" in errors else f"no target can be connected to: {errors[0]}" if errors else "")
            return self.down

    def _conclude(self, down: str) -> None:
        was, self.down = self.down, down
        self._readiness.set(NAME, ok=not down, why=down)
        if down and not was:
            self._slots.hold_off(NAME, down, give_back=ReturnReason.RETURN_REASON_NO_NETWORK)
            log.error("network_lost", why=down, in_hand=self._slots.in_hand)
        elif was and not down:
            self._slots.go_on(NAME)
            log.info("network_back")


async def _connect(host: str, port: int) -> str:
    """What went wrong; nothing when the target took the connection."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"no answer within {CONNECT_SECONDS:.0f} s"
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return ""
