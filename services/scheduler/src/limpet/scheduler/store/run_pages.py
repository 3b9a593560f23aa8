"""The start pages of runs, and the tasks that fetch their list pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from limpet.kit.pg import Conn, Record
from limpet.scheduler.runs.listing import StartPage
from limpet.scheduler.runs.verdict import Outcome

ADD_START_PAGES: Final = """
    INSERT INTO run_start_pages (run_id, start_no, url, pages, open_pages, paging)
    SELECT $1, * FROM unnest($2::int[], $3::text[], $4::int[], $4::int[], $5::jsonb[])
"""


async def add_start_pages(conn: Conn, run_id: UUID, pages: Sequence[tuple[int, str, dict[str, Any]]]) -> None:
    """(number, URL, how its list goes on). The first list page of each has been asked for."""
    await conn.execute(
        ADD_START_PAGES,
        run_id,
        [page[0] for page in pages],
        [page[1] for page in pages],
        [1] * len(pages),
        [json.dumps(page[2]) for page in pages],
    )


# The state is known before the numbers: a start page that has ended is not read again.
LOCK_START_PAGES: Final = """
    SELECT p.run_id, p.start_no, p.url, p.state, p.collected, p.pages, p.open_pages, p.failure_count, p.failures, p.paging,
           p.reason
      FROM run_start_pages p JOIN unnest($1::uuid[], $2::int[]) AS w(run_id, start_no) USING (run_id, start_no)
     ORDER BY p.run_id, p.start_no FOR NO KEY UPDATE OF p
"""


async def lock_start_pages(conn: Conn, keys: Sequence[tuple[UUID, int]]) -> dict[tuple[UUID, int], StartPage]:
    rows = await conn.fetch(LOCK_START_PAGES, [key[0] for key in keys], [key[1] for key in keys])
    found = {}
    for row in rows:
        told = {**row, "failures": json.loads(row["failures"]), "paging": json.loads(row["paging"])}
        found[(row["run_id"], row["start_no"])] = StartPage(**told)
    return found


SAVE_START_PAGES: Final = """
    UPDATE run_start_pages p
       SET state = s.state, collected = s.collected, pages = s.pages, open_pages = s.open_pages,
           failure_count = s.failure_count, failures = s.failures, paging = s.paging, reason = s.reason,
           started_at = coalesce(p.started_at, CASE WHEN s.state <> 'pending' THEN now() END),
           ended_at = CASE WHEN s.state IN ('completed', 'failed') THEN coalesce(p.ended_at, now()) END
      FROM unnest($1::uuid[], $2::int[], $3::text[], $4::bigint[], $5::int[], $6::int[], $7::int[], $8::jsonb[], $9::jsonb[],
                  $10::text[])
           AS s(run_id, start_no, state, collected, pages, open_pages, failure_count, failures, paging, reason)
     WHERE p.run_id = s.run_id AND p.start_no = s.start_no
"""


async def save_start_pages(conn: Conn, pages: Sequence[StartPage]) -> None:
    if pages:
        await conn.execute(
            SAVE_START_PAGES,
            [page.run_id for page in pages],
            [page.start_no for page in pages],
            [page.state for page in pages],
            [page.collected for page in pages],
            [page.pages for page in pages],
            [page.open_pages for page in pages],
            [page.failure_count for page in pages],
            [json.dumps(page.failures) for page in pages],
            [json.dumps(page.paging) for page in pages],
            [page.reason for page in pages],
        )


class Place(NamedTuple):
    """Whose list page a task fetches."""

    task_id: int
    run_id: UUID
    start_no: int
    url: str

    @property
    def start(self) -> tuple[UUID, int]:
        return self.run_id, self.start_no


PLACES_OF: Final = """
    SELECT p.task_id, p.run_id, p.start_no, t.url FROM run_pages p JOIN crawl_tasks t USING (task_id)
     WHERE p.task_id = ANY($1::bigint[])
"""


async def places_of(conn: Conn, task_ids: Sequence[int]) -> dict[int, Place]:
    return {row[0]: Place(*row) for row in await conn.fetch(PLACES_OF, list(task_ids))}


ADD_PAGES: Final = """
    INSERT INTO run_pages (task_id, run_id, start_no) SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[])
"""


async def add_pages(conn: Conn, pages: Sequence[tuple[int, UUID, int]]) -> None:
    """The task of each, its run and start page."""
    await conn.execute(ADD_PAGES, [page[0] for page in pages], [page[1] for page in pages], [page[2] for page in pages])


OUTCOMES: Final = """
    SELECT start_no, url, state, collected, reason FROM run_start_pages WHERE run_id = $1 ORDER BY start_no
"""


async def outcomes(conn: Conn, run_id: UUID) -> dict[int, Outcome]:
    """How the start pages of a run stand, by number."""
    rows = await conn.fetch(OUTCOMES, run_id)
    return {row[0]: Outcome(*row[1:]) for row in rows}


LIST_START_PAGES: Final = """
    SELECT * FROM run_start_pages WHERE run_id = $1 AND start_no > $2 ORDER BY start_no LIMIT $3
"""


async def list_start_pages(conn: Conn, run_id: UUID, *, after: int, limit: int) -> list[Record]:
    return await conn.fetch(LIST_START_PAGES, run_id, after, limit)


# Of a run that is over: pages that nobody needs any more.
OPEN_PAGES: Final = """
    SELECT p.task_id FROM run_pages p JOIN crawl_tasks t USING (task_id)
     WHERE p.run_id = $1 AND t.resting IS NULL ORDER BY p.task_id LIMIT $2
"""


async def open_pages(conn: Conn, run_id: UUID, *, limit: int) -> list[int]:
    return [row["task_id"] for row in await conn.fetch(OPEN_PAGES, run_id, limit)]


DROP_PAGES: Final = """
    DELETE FROM crawl_tasks
     WHERE task_id IN (SELECT p.task_id FROM run_pages p WHERE p.run_id = ANY($1::uuid[]) ORDER BY p.task_id LIMIT $2)
       AND kind = 'list'
    RETURNING task_id
"""


async def drop_pages(conn: Conn, run_ids: Sequence[UUID], *, limit: int) -> int:
    """The tasks of list pages of runs that are long over."""
    return len(await conn.fetch(DROP_PAGES, list(run_ids), limit))


START_URLS: Final = """
    SELECT DISTINCT ON (r.domain_id) r.domain_id,
           ARRAY(SELECT p.url FROM run_start_pages p WHERE p.run_id = r.run_id ORDER BY p.start_no) AS urls
      FROM runs r WHERE r.domain_id = ANY($1::bigint[]) ORDER BY r.domain_id, r.run_no DESC
"""


async def start_urls(conn: Conn, domain_ids: Sequence[int]) -> dict[int, list[str]]:
    """The start pages of the last run of each site."""
    return {row["domain_id"]: row["urls"] for row in await conn.fetch(START_URLS, list(domain_ids))}
