"""How much waits in each queue of the platform, for Prometheus."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import nats.errors
import structlog
from nats.js.errors import Error

from limpet.health import metrics
from limpet.kit.bus import Bus
from limpet.kit.streams import CONSUMERS

log = structlog.get_logger()
TIMEOUT = 5.0


@dataclass(frozen=True)
class Queues:
    """Every replica of health looks and says the same."""

    bus: Bus
    every_seconds: float = 15.0

    async def run(self) -> None:
        """A part. While NATS is away the numbers stay what they were."""
        while True:
            try:
                await self.look()
            except (nats.errors.Error, Error, OSError, TimeoutError) as error:
                log.warning("queues_not_counted", error=repr(error))
            await asyncio.sleep(self.every_seconds)

    async def look(self) -> None:
        js = self.bus.client.jetstream(timeout=TIMEOUT)
        for spec in CONSUMERS:
            info = await js.consumer_info(spec.stream, spec.name)
            metrics.QUEUE_WAITING.labels(spec.name).set(info.num_pending or 0)
            metrics.QUEUE_IN_HAND.labels(spec.name).set(info.num_ack_pending or 0)
            metrics.QUEUE_REDELIVERED.labels(spec.name).set(info.num_redelivered or 0)
