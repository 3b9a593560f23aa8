"""Started-notices make `crawling` and `parsing` visible; nothing depends on them."""

from __future__ import annotations

from dataclasses import dataclass

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.contracts.events.v1.fetch_pb2 import ClockReply, FetchStarted
from limpet.contracts.events.v1.parse_pb2 import ParseStarted
from limpet.kit.clock import to_stamp
from limpet.kit.pg import Pool
from limpet.scheduler.store.tasks import mark_crawling, mark_parsing, read_clock


@dataclass(frozen=True)
class Notices:
    pool: Pool

    async def on_fetch_started(self, data: bytes) -> None:
        records = [FetchStarted.FromString(record) for record in Batch.FromString(data).records]
        async with self.pool.acquire() as conn:
            await mark_crawling(conn, sorted((record.task_id, record.attempt) for record in records))

    async def on_parse_started(self, data: bytes) -> None:
        records = [ParseStarted.FromString(record) for record in Batch.FromString(data).records]
        async with self.pool.acquire() as conn:
            await mark_parsing(conn, sorted((record.task_id, record.attempt) for record in records))

    async def on_clock_read(self, _data: bytes) -> bytes:
        """The database's clock, for fetchers: leases and slots are decided by it."""
        async with self.pool.acquire() as conn:
            return ClockReply(now_time=to_stamp(await read_clock(conn))).SerializeToString()
