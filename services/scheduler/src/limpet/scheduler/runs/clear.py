"""What is left to do when a run has ended: step by step, each in a transaction of its own, until nothing is."""

from __future__ import annotations

from datetime import timedelta

from limpet.kit.pg import Conn, Pool, Record
from limpet.scheduler.again import try_again
from limpet.scheduler.conclude import conclude
from limpet.scheduler.lifecycle import TERMINAL, Status
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.runs.commit import created_by
from limpet.scheduler.store.batches import count_pages, lock_batches
from limpet.scheduler.store.domains import lock_domain_ids, wake_domains
from limpet.scheduler.store.run_pages import open_pages
from limpet.scheduler.store.run_urls import drop_urls, ended_known, peek_urls
from limpet.scheduler.store.runs import clear_run
from limpet.scheduler.store.tasks import change_tasks, lock_tasks, recrawl_tasks

CHUNK = 1000
DROPPED_AT_ONCE = 20_000


async def clear(pool: Pool, run: Record) -> None:
    """Killed at any moment, it is begun again: every step finds what the last one left."""
    await try_again(pool, lambda conn: _wake(conn, run))
    while await try_again(pool, lambda conn: _cancel_pages(conn, run)):
        pass
    if run["state"] == "committed":
        # What was collected goes only now. An aborted run keeps it for a while, for people to look at.
        while await try_again(pool, lambda conn: _take_urls(conn, run)):
            pass
    await try_again(pool, lambda conn: clear_run(conn, run["run_id"]))


async def _wake(conn: Conn, run: Record) -> None:
    """The commit did not lock the domain, for it may take a while: now it hears that there is something to do."""
    await lock_domain_ids(conn, [run["domain_id"]])
    await wake_domains(conn, [(run["domain_id"], None, run["priority"])])


async def _cancel_pages(conn: Conn, run: Record) -> bool:
    """List pages that nobody needs any more."""
    found = await open_pages(conn, run["run_id"], limit=CHUNK)
    tasks = [task for task in (await lock_tasks(conn, found)).values() if task.status not in TERMINAL]
    changes: list[tuple[Status, TaskRow]] = [(task.status, task) for task in tasks]
    await lock_domain_ids(conn, [run["domain_id"]])
    for task in tasks:
        task.become("cancelled", Status.CANCELLED)
        task.error = f"run {run['run_id']} is over"
    await change_tasks(conn, changes, parse_lease=timedelta(0), actor="scheduler")
    await conclude(conn, tasks)
    return bool(found)


async def _take_urls(conn: Conn, run: Record) -> bool:
    """Known pages are crawled again where the run asked for it; then nothing of its URLs is needed any more."""
    again: bool = run["recrawl"]
    keys = await peek_urls(conn, run["run_id"], limit=CHUNK if again else DROPPED_AT_ONCE)
    if keys and again:
        await _crawl_again(conn, run, [digest for digest, _ in keys])
    await drop_urls(conn, run["run_id"], keys)
    return bool(keys)


async def _crawl_again(conn: Conn, run: Record, digests: list[bytes]) -> None:
    batch_id = run["batch_id"]
    known = await ended_known(conn, digests, batch_id=batch_id)
    tasks = await lock_tasks(conn, sorted(known))
    ended = [(task_id, None, None) for task_id, task in tasks.items() if task.status in TERMINAL]
    if not ended or batch_id is None:
        return
    await lock_domain_ids(conn, sorted({task.domain_id for task in tasks.values()}))
    await lock_batches(conn, [batch_id])
    rows = await recrawl_tasks(conn, ended, event="recrawled", actor=created_by(run["run_id"]), batch_id=batch_id)
    await wake_domains(conn, [(row["domain_id"], row["group_key"], row["priority"]) for row in rows if row["is_due"]])
    await count_pages(conn, batch_id, len(rows))
