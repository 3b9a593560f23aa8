"""Drive the scheduler's flow by hand on a real database: submit, grant, settle, ripen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.bus import Bus
from limpet.kit.errors import Permanent
from limpet.kit.pg import Pool
from limpet.scheduler.api.schemas import DomainIn
from limpet.scheduler.discover import Discover
from limpet.scheduler.grant import Terms
from limpet.scheduler.grant import grant as grant_round
from limpet.scheduler.reclaim import Reclaim
from limpet.scheduler.retry import RetryPolicy
from limpet.scheduler.ripen import Ripen
from limpet.scheduler.robots import RobotsBook
from limpet.scheduler.settle import Settle
from limpet.scheduler.store.domains import add_domain
from limpet.scheduler.store.permits import Permit
from limpet.scheduler.submit import submit


async def make_domain(pool: Pool, name: str = "shop.test", **values: Any) -> None:
    body = DomainIn.model_validate(
        {"name": name, "crawl_delay_seconds": 0, "max_concurrent_requests": 100, "obey_robots": False, **values}
    )
    async with pool.acquire() as conn:
        assert await add_domain(conn, name, {**body.model_dump(), "base_url": f"http://{name}/"}) is not None


async def grant(pool: Pool, *, window: int = 1000, lead: float = 0.4, lease: float = 30.0) -> list[Permit]:
    terms = Terms(
        lead=timedelta(seconds=lead), per_domain=64, domains=100, patience=timedelta(0), timeout=timedelta(seconds=lease),
        margin=timedelta(0),
    )  # fmt: skip
    async with pool.acquire() as conn, conn.transaction():
        return await grant_round(conn, terms, window=window, book=RobotsBook())


class Bodies(dict[str, bytes]):
    """Page bodies by their keys."""

    async def get_many(self, keys: Sequence[str]) -> Sequence[bytes | Permanent]:
        return [self[key] for key in keys]


def make_settle(pool: Pool, *, bodies: Mapping[str, bytes] | None = None) -> Settle:
    policy = RetryPolicy(retry_base=60, block_base=30)
    kept = Bodies(bodies or {})
    return Settle(pool, kept, Discover(pool), policy, timedelta(seconds=60), freed=lambda: None, rng=Random(1))


async def submit_pages(pool: Pool, count: int, *, host: str = "shop.test", **options: Any) -> None:
    result = await submit(pool, [{"url": f"http://{host}/p/{n}", **options} for n in range(count)], batch=None)
    assert len(result.created) == count


async def status_of(pool: Pool, task_id: int) -> str:
    return str(await pool.fetchval("SELECT status FROM crawl_tasks WHERE task_id = $1", task_id))


async def in_flight(pool: Pool) -> tuple[int, int]:
    """What the counter says and what the rows say."""
    row = await pool.fetchrow("SELECT (SELECT sum(in_flight) FROM domains), (SELECT count(*) FROM permits)")
    assert row is not None
    return row[0], row[1]


async def come_due(pool: Pool, *, recrawls: bool = False) -> None:
    """All that waits in the calendar has waited long enough; with `recrawls`, for the next crawl as well."""
    await pool.execute(
        "UPDATE crawl_tasks SET scheduled_at = now() - interval '1 s'"
        " WHERE status = 'pending' AND task_id IN (SELECT task_id FROM waiting_tasks)"
    )
    await pool.execute(
        "UPDATE waiting_tasks w SET wake_at = t.scheduled_at FROM crawl_tasks t"
        " WHERE t.task_id = w.task_id AND t.status = 'pending'"
    )
    if recrawls:
        await pool.execute("UPDATE crawl_tasks SET next_crawl_at = now() WHERE next_crawl_at IS NOT NULL")
        await pool.execute(
            "UPDATE waiting_tasks w SET wake_at = t.next_crawl_at FROM crawl_tasks t"
            " WHERE t.task_id = w.task_id AND t.next_crawl_at IS NOT NULL"
        )
    await Ripen(pool, every=1, freed=lambda: None, parse_lease=timedelta(seconds=60)).round()


def page(permit: Permit) -> PageFetched:
    return PageFetched(
        task_id=permit.task_id, attempt=permit.attempt, url=permit.url, body_key="aa/bb", http_status=200
    )


def make_reclaim(pool: Pool, bus: Bus) -> Reclaim:
    return Reclaim(pool, bus, timedelta(seconds=60), every=1, freed=lambda: None)
