"""Events are told to those who asked for it: claim what is due, post it, write down what came of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import asyncpg
import structlog

from limpet.kit.pg import LOST, Pool
from limpet.scheduler.courier import Courier
from limpet.scheduler.metrics import WEBHOOKS
from limpet.scheduler.redelivery import RETRY_BASE, Answer, finish
from limpet.scheduler.signature import Signer
from limpet.scheduler.store.webhooks import Claim, Finished, claim_deliveries, finish_deliveries

log = structlog.get_logger()
# All of a round are posted at once, so its length is that of the slowest.
BATCH = 64
PER_ENDPOINT = 16
# Far longer than a round, so that nobody sends what we are still sending.
LEASE = timedelta(seconds=60)
# An endpoint that lets us wait would slow every round down for all the others.
REST_SECONDS = 60.0


@dataclass
class Webhooks:
    pool: Pool
    courier: Courier
    signer: Signer
    every: float = 1.0
    batch: int = BATCH
    lease: timedelta = LEASE
    base: float = RETRY_BASE
    rng: Random = field(default_factory=Random)
    _resting: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        """A part. What cannot be signed is not sent: it waits in its table for a secret."""
        if not self.signer.enabled:
            log.info("webhooks_off")
            await asyncio.Event().wait()
        while True:
            try:
                if await self.round():
                    continue
            except (*LOST, asyncpg.PostgresError) as error:
                # What was sent and not written down is sent again when its lease has passed.
                log.warning("webhooks_failed", error=repr(error))
            await asyncio.sleep(self.every)

    async def round(self) -> int:
        """Returns how many were tried."""
        now = time.monotonic()
        self._resting = {endpoint: until for endpoint, until in self._resting.items() if until > now}
        async with self.pool.acquire() as conn, conn.transaction():
            claims = await claim_deliveries(
                conn, limit=self.batch, per_endpoint=PER_ENDPOINT, lease=self.lease, resting=list(self._resting)
            )
        if not claims:
            return 0
        answers = await asyncio.gather(*(self._post(claim) for claim in claims))
        done = [
            finish(claim, answer, rng=self.rng, base=self.base) for claim, answer in zip(claims, answers, strict=True)
        ]
        async with self.pool.acquire() as conn:
            await finish_deliveries(conn, done)
        for claim, answer, result in zip(claims, answers, done, strict=True):
            self._remember(claim, answer, result)
        return len(claims)

    async def _post(self, claim: Claim) -> Answer:
        body = claim.body.encode()
        headers = self.signer.headers(claim.endpoint, delivery_id=claim.delivery_id, body=body, at=time.time())
        return await self.courier.post(claim.url, body, headers)

    def _remember(self, claim: Claim, answer: Answer, result: Finished) -> None:
        if answer.late:
            self._resting[claim.endpoint] = time.monotonic() + REST_SECONDS
        WEBHOOKS.labels("retried" if result.state == "pending" else result.state).inc()
        if result.state == "dead":
            # The path of the URL may be its password, so it is not logged.
            log.warning(
                "webhook_dead",
                delivery_id=str(claim.delivery_id),
                endpoint=claim.endpoint,
                tries=claim.tries,
                error=result.last_error,
            )
