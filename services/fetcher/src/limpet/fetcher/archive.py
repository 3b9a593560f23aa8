"""Keep answers: the body in the page store, the row with others of the same moment in one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import structlog

from limpet.fetcher.gather import Gather
from limpet.fetcher.store import responses
from limpet.fetcher.store.responses import Response
from limpet.kit.backoff import delay
from limpet.kit.blobs import Blobs
from limpet.kit.errors import Retryable
from limpet.kit.pg import LOST, Pool

log = structlog.get_logger()

LINGER = 0.01
TRIES = 6


class Archive:
    def __init__(self, pool: Pool, blobs: Blobs) -> None:
        self._pool = pool
        self._blobs = blobs
        self._rows: Gather[Response, None] = Gather(self._write, linger=LINGER, most=200)

    async def keep_body(self, body: bytes) -> str:
        return await self._blobs.put(body)

    async def keep(self, response: Response) -> None:
        """Returns when the row is written."""
        await self._rows.add(response)

    async def _write(self, rows: Sequence[Response]) -> Sequence[None]:
        """A database that is away for a few seconds must not cost the pages that are in hand."""
        for attempt in range(1, TRIES + 1):
            try:
                async with self._pool.acquire(timeout=10) as conn:
                    await responses.add(conn, rows)
                return [None] * len(rows)
            except LOST as error:
                log.warning("responses_not_kept", rows=len(rows), attempt=attempt, error=repr(error))
                lost = error
            await asyncio.sleep(delay(attempt, base=0.1, cap=2, rng=Random()))
        raise Retryable("the database did not take the rows of answers") from lost
