"""A run begins: its start pages become the first list pages, in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from limpet.kit.pg import Conn
from limpet.scheduler.canonical import Canonical
from limpet.scheduler.metrics import TASKS_ADDED
from limpet.scheduler.new_task import NewTask
from limpet.scheduler.pagination import begin
from limpet.scheduler.runs.listing import StartPage
from limpet.scheduler.store.domains import lock_domains, wake_domains
from limpet.scheduler.store.run_pages import add_pages, add_start_pages
from limpet.scheduler.store.runs import LiveRun, add_run, find_run, live_run
from limpet.scheduler.store.tasks import add_tasks

CREATED_BY = "run"


@dataclass(frozen=True)
class Wish:
    """A run as it is asked for."""

    run_id: UUID
    site: str
    start_pages: Sequence[Canonical]
    # The columns that say how.
    options: Mapping[str, Any]
    created_by: str
    schedule_id: int | None = None


@dataclass(frozen=True)
class Started:
    """The run there is now: a new one, the one of this id, or the one that is live already."""

    run_id: UUID
    created: bool


class UnknownSite(LookupError):
    """No domain has this name."""


class TakenId(ValueError):
    """The run of this id is of another site."""


async def start_run(conn: Conn, wish: Wish) -> Started:
    """Call inside a transaction. The domain's lock makes those who want a run of it take turns."""
    domain_id = (await lock_domains(conn, [wish.site])).get(wish.site)
    if domain_id is None:
        raise UnknownSite(wish.site)
    same = await find_run(conn, wish.run_id)
    if same is not None:
        if same["domain_id"] != domain_id:
            raise TakenId(str(wish.run_id))
        return Started(wish.run_id, created=False)
    live = await live_run(conn, domain_id)
    if live is not None:
        return Started(live, created=False)
    await add_run(
        conn,
        wish.run_id,
        domain_id=domain_id,
        schedule_id=wish.schedule_id,
        created_by=wish.created_by,
        wishes=wish.options,
    )
    pages = list(dict.fromkeys(page.url for page in wish.start_pages))
    starts = [
        (number, url, StartPage.paging_of(begin(url, max_pages=wish.options["max_list_pages"] + 1)))
        for number, url in enumerate(pages, start=1)
    ]
    await add_start_pages(conn, wish.run_id, starts)
    run = LiveRun(
        wish.run_id,
        domain_id,
        wish.site,
        *(
            wish.options[name]
            for name in ("item_pattern", "list_parser_name", "priority", "max_retries", "max_list_pages")
        ),
    )
    await ask_for_pages(conn, [(run, number, url) for number, url, _ in starts])
    return Started(wish.run_id, created=True)


async def ask_for_pages(conn: Conn, pages: Sequence[tuple[LiveRun, int, str]]) -> dict[tuple[UUID, int], int]:
    """List pages become tasks: (run, start page, URL). How many of each start page. Domains are locked by the caller."""
    wanted = {page_identity(run.run_id, start_no, url): (run, start_no, url) for run, start_no, url in pages}
    if not wanted:
        return {}
    tasks = [
        NewTask(
            run.domain_id,
            url,
            digest,
            priority=list_priority(run.priority),
            max_retries=run.max_retries,
            parser_name=run.list_parser_name,
            is_recurring=False,
            kind="list",
        )
        for digest, (run, _, url) in wanted.items()
    ]
    rows = await add_tasks(conn, tasks, batch_id=None, created_by=CREATED_BY)
    found = [(row, wanted[row["url_hash"]]) for row in rows]
    await add_pages(conn, [(row["task_id"], run.run_id, start_no) for row, (run, start_no, _) in found])
    await wake_domains(conn, [(row["domain_id"], None, row["priority"]) for row in rows])
    TASKS_ADDED.labels("run").inc(len(rows))
    counts: dict[tuple[UUID, int], int] = {}
    for _, (run, start_no, _) in found:
        counts[(run.run_id, start_no)] = counts.get((run.run_id, start_no), 0) + 1
    return counts


def list_priority(priority: int) -> int:
    """Before the pages that an earlier run of the site published: a run would wait for all of them."""
    return max(1, priority - 1)


def page_identity(run_id: UUID, start_no: int, url: str) -> bytes:
    """A list page is asked for once for each start page of each run. It is not the page of this address, which has its own task."""
    return hashlib.sha256(f"list {run_id} {start_no} {url}".encode()).digest()
