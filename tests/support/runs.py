"""Drive runs by hand on a real database: begin them, answer for their list pages, let them end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel, PageParsed
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.pg import Pool, Record
from limpet.scheduler.runs.tend import Tend
from limpet.scheduler.store.permits import Permit
from tests.support.scheduling import grant, make_settle

HOST = "shop.test"


def start_url(number: int) -> str:
    return f"http://{HOST}/list/{number}"


async def begin_run(api: httpx.AsyncClient, *, starts: int = 2, site: str = HOST, **options: Any) -> dict[str, Any]:
    urls = [start_url(number) for number in range(1, starts + 1)]
    body = {"site": site, "start_pages": urls, **options}
    answer = await api.post("/api/admin/runs", json=body)
    assert answer.status_code == 201, answer.text
    run: dict[str, Any] = answer.json()
    return run


def links(items: Sequence[str], *, after: str | None = None) -> list[Link]:
    """Links to items, and to the next page of the list."""
    found = [Link(url=f"http://{HOST}/p/{item}", kind=LinkKind.LINK_KIND_ITEM) for item in items]
    if after is not None:
        found.append(Link(url=after, kind=LinkKind.LINK_KIND_PAGINATION, rel=LinkRel.LINK_REL_NEXT))
    return found


def fetched(permit: Permit, **fields: Any) -> PageFetched:
    at = to_stamp(datetime.now(UTC))
    key = {"task_id": permit.task_id, "attempt": permit.attempt, "url": permit.url, "started_time": at}
    return PageFetched(**{**key, "body_key": "aa/bb", "http_status": 200, **fields})


def read(permit: Permit, items: Sequence[str], *, after: str | None = None, parts: int = 0) -> PageParsed:
    return PageParsed(page=fetched(permit), links=links(items, after=after), link_parts=parts)


def unreachable(permit: Permit, *, proxy_id: int = 0, error: str = "reset") -> FetchFailed:
    return FetchFailed(
        task_id=permit.task_id,
        attempt=permit.attempt,
        kind=FailureKind.FAILURE_KIND_NETWORK,
        error=error,
        proxy_id=proxy_id,
        started_time=to_stamp(datetime.now(UTC)),
    )


def missing(permit: Permit) -> FetchFailed:
    return FetchFailed(
        task_id=permit.task_id,
        attempt=permit.attempt,
        kind=FailureKind.FAILURE_KIND_CLIENT_ERROR,
        error="status 404",
        http_status=404,
    )


def blocked(permit: Permit, *, proxy_id: int = 0) -> PageRejected:
    return PageRejected(
        task_id=permit.task_id,
        attempt=permit.attempt,
        kind=RejectKind.REJECT_KIND_BLOCKED,
        reason="status 403",
        http_status=403,
        proxy_id=proxy_id,
        started_time=to_stamp(datetime.now(UTC)),
    )


async def granted(pool: Pool) -> dict[str, Permit]:
    """All that is due now, by its URL."""
    return {permit.url: permit for permit in await grant(pool)}


async def answer_all(pool: Pool, site: Mapping[str, tuple[Sequence[str], str | None]]) -> None:
    """A site that works: its list pages have items and name the next one, its pages lead nowhere. Until all is answered.

    What the site does not have is asked for where a list might go on, and is not there.
    """
    while permits := await granted(pool):
        facts: list[PageParsed | FetchFailed] = []
        for url, permit in permits.items():
            if permit.kind == "list" and url not in site:
                facts.append(missing(permit))
                continue
            items, after = site[url] if permit.kind == "list" else ([], None)
            facts.append(read(permit, items, after=after))
        await make_settle(pool).settle(facts)


def make_tend(pool: Pool, bus: Bus) -> Tend:
    return Tend(pool, bus, every=1, freed=lambda: None)


async def pages_of(pool: Pool, run_id: str | UUID) -> list[Record]:
    return await pool.fetch("SELECT * FROM run_start_pages WHERE run_id = $1 ORDER BY start_no", UUID(str(run_id)))


async def published(pool: Pool) -> list[str]:
    rows = await pool.fetch("SELECT url FROM crawl_tasks WHERE kind = 'page' ORDER BY url")
    return [row["url"].removeprefix(f"http://{HOST}/p/") for row in rows]


async def insert_collected(pool: Pool, run_id: UUID, *, start_no: int, count: int, prefix: str = "big") -> None:
    """A run that has collected very many URLs, as rows: with the identities that the scheduler would give them."""
    await pool.execute(
        """INSERT INTO run_urls (run_id, url_hash, start_no, url)
           SELECT $1, sha256(convert_to(url, 'UTF8')), $2, url
             FROM (SELECT 'http://shop.test/p/' || $4 || '-' || n AS url FROM generate_series(1, $3::int) AS n) AS urls""",
        run_id,
        start_no,
        count,
        prefix,
    )
    await pool.execute(
        "UPDATE run_start_pages SET collected = collected + $3 WHERE run_id = $1 AND start_no = $2",
        run_id,
        start_no,
        count,
    )


def new_id() -> str:
    return str(uuid4())
