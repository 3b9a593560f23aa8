"""Keep answers: those of the same moment share one pack in the page store and one statement for their rows."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from random import Random
from typing import TypeAlias

import structlog

from limpet.fetcher.store import bodies, packs, responses
from limpet.fetcher.store.responses import Response
from limpet.kit.backoff import delay
from limpet.kit.blobs import Blobs
from limpet.kit.errors import Retryable
from limpet.kit.gather import Gather
from limpet.kit.pg import LOST, Pool

log = structlog.get_logger()

LINGER = 0.01
MOST = 64
TRIES = 6
# A row, and the body of a page that is worth keeping.
Answer: TypeAlias = tuple[Response, bytes | None]


class Archive:
    def __init__(self, pool: Pool, blobs: Blobs) -> None:
        self._pool = pool
        self._blobs = blobs
        self._answers: Gather[Answer, str] = Gather(self._keep, linger=LINGER, most=MOST)

    async def keep(self, response: Response, body: bytes | None) -> str:
        """Returns the body's key when body and row are kept; nothing for an answer without a body worth keeping.

        A row that names a body already keeps its name, and the body for longer; nothing where that is not kept any more.
        """
        return await self._answers.add((response, body))

    async def _keep(self, answers: Sequence[Answer]) -> Sequence[str]:
        """A database that is away for a few seconds must not cost the pages that are in hand."""
        for attempt in range(1, TRIES + 1):
            try:
                return await self._write(answers)
            except LOST as error:
                log.warning("answers_not_kept", count=len(answers), attempt=attempt, error=repr(error))
                lost = error
            await asyncio.sleep(delay(attempt, base=0.1, cap=2, rng=Random()))
        raise Retryable("the database did not take the rows of answers") from lost

    async def _write(self, answers: Sequence[Answer]) -> list[str]:
        digests = [hashlib.sha256(body).digest() if body is not None else b"" for _, body in answers]
        found = {digest: body for digest, (_, body) in zip(digests, answers, strict=True) if body is not None}
        async with self._pool.acquire(timeout=10) as conn:
            known = await bodies.find(conn, list(found)) if found else {}
            again = {pack_of(row.body_key) for row, _ in answers if row.body_key}
            there = await packs.kept(conn, sorted(again)) if again else set()
        fresh = {digest: body for digest, body in found.items() if digest not in known}
        kept = dict(zip(fresh, await self._blobs.put_many(list(fresh.values())), strict=True))
        keys = [
            known.get(digest) or kept.get(digest, "") or (row.body_key if pack_of(row.body_key) in there else "")
            for digest, (row, _) in zip(digests, answers, strict=True)
        ]
        rows = [row._replace(body_key=key) for (row, _), key in zip(answers, keys, strict=True)]
        stored = [(digest, key, len(fresh[digest])) for digest, key in kept.items()]
        async with self._pool.acquire(timeout=10) as conn:
            await responses.add(conn, rows, bodies=stored)
        return keys


def pack_of(key: str) -> str:
    """The object of the page store that a body is in."""
    return key.partition("#")[0]
