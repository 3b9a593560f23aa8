"""A run ends: all that it collected becomes tasks in one transaction, or it is aborted and nothing does."""

from __future__ import annotations

from random import Random
from typing import Any, Literal
from uuid import UUID

from limpet.kit.pg import Conn, Record
from limpet.scheduler.runs.verdict import Gate, Outcome, Refusal, Terms, is_over, refusal
from limpet.scheduler.store.batches import add_batch, get_batch
from limpet.scheduler.store.run_pages import outcomes
from limpet.scheduler.store.run_urls import Publication, count_urls, publish_urls
from limpet.scheduler.store.runs import end_run, get_run, last_good, lock_run, take_run
from limpet.scheduler.store.webhooks import add_deliveries
from limpet.scheduler.webhook_event import make_delivery, run_subject

# A statement may run so long: a million URLs take minutes where disks are slow.
LONGEST = 1800.0
Ending = Literal["committed", "aborted"]


def created_by(run_id: UUID) -> str:
    return f"run:{run_id}"


async def finish_run(conn: Conn, run_id: UUID) -> Ending | None:
    """Commit or abort a run that waits for nothing more. None where it does, or has ended. Call inside a transaction."""
    run = await take_run(conn, run_id)
    if run is None:
        return None
    terms = Terms(run["on_failed_start_page"], run["quorum"], run["allow_empty"], run["least_share"])
    pages = await outcomes(conn, run_id)
    if not is_over(list(pages.values()), terms):
        return None
    starts = [number for number, page in pages.items() if page.state == "completed"]
    total = await count_urls(conn, run_id, starts=starts, seconds=LONGEST)
    closed = refusal(list(pages.values()), terms, total=total, last=await last_good(conn, run["domain_id"]))
    if closed is not None:
        await _abort(conn, run_id, closed, total=total)
        return "aborted"
    batch_id = await _batch(conn, f"run-{run_id}") if total else None
    new_tasks = 0
    if batch_id is not None:
        common = Publication(
            run["domain_id"],
            run["priority"],
            run["max_retries"],
            batch_id,
            run["parser_name"],
            created_by(run_id),
        )
        new_tasks = await publish_urls(conn, run_id, common, starts=starts, seconds=LONGEST)
    await end_run(conn, run_id, state="committed", urls=total, new_tasks=new_tasks, batch_id=batch_id)
    await _tell(conn, run_id)
    return "committed"


async def abort_run(conn: Conn, run_id: UUID, *, actor: str) -> Record | None:
    """A person gives it up. Returns the run as it was; None where there is none. Call inside a transaction."""
    run = await lock_run(conn, run_id)
    if run is not None and run["ended_at"] is None:
        pages: list[Outcome] = list((await outcomes(conn, run_id)).values())
        why = Refusal(Gate.PERSON, f"it was aborted over the API by {actor}")
        await _abort(conn, run_id, why, total=sum(page.collected for page in pages))
    return run


async def _abort(conn: Conn, run_id: UUID, closed: Refusal, *, total: int) -> None:
    await end_run(conn, run_id, state="aborted", gate=closed.gate.value, reason=closed.reason, urls=total)
    await _tell(conn, run_id)


async def _batch(conn: Conn, name: str) -> int:
    row = await add_batch(conn, name=name, follow=False, recrawl=False, max_pages=None)
    # Somebody may have made one of this name.
    found: Any = row or await get_batch(conn, name)
    batch_id: int = found["batch_id"]
    return batch_id


async def _tell(conn: Conn, run_id: UUID) -> None:
    """The webhook is written with the end, so that neither is without the other."""
    row = await get_run(conn, run_id)
    if row is not None and row["webhook_url"] is not None:
        event = f"run.{row['state']}"
        delivery = make_delivery(row["webhook_url"], event, run_subject(row), occurred_at=row["ended_at"], rng=Random())
        await add_deliveries(conn, [delivery])
