"""What follows when tasks have ended: batches count down, runs hear of list pages, and so do those who wait or asked to be told."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from limpet.kit.pg import Conn
from limpet.scheduler.lifecycle import TERMINAL
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.runs.collect import give_up
from limpet.scheduler.store.batches import Ended, close_batches, count_batch
from limpet.scheduler.store.children import add_ends
from limpet.scheduler.store.task_lists import ended_tasks
from limpet.scheduler.store.webhooks import Delivery, add_deliveries
from limpet.scheduler.webhook_event import batch_subject, make_delivery, task_subject


async def conclude(conn: Conn, tasks: Sequence[TaskRow]) -> None:
    """In the transaction that ended them. Of these tasks, those that ended count."""
    ended = [task for task in tasks if task.status in TERMINAL]
    if not ended:
        return
    await add_ends(conn, [(task.task_id, task.status.value) for task in ended if task.has_children])
    told = [task.task_id for task in ended if task.webhook_url is not None]
    deliveries = await _about_tasks(conn, told) if told else []
    closed = await close_batches(conn, _by_batch(ended))
    for row in closed:
        if row["webhook_url"] is not None:
            subject = batch_subject(row, await count_batch(conn, row["batch_id"]))
            deliveries.append(
                make_delivery(row["webhook_url"], "batch.ended", subject, occurred_at=row["ended_at"], rng=Random())
            )
    await add_deliveries(conn, deliveries)
    await give_up(conn, ended)


def _by_batch(tasks: Sequence[TaskRow]) -> dict[int, Ended]:
    ended: dict[int, Ended] = {}
    for task in tasks:
        if task.batch_id is not None:
            one = ended.setdefault(task.batch_id, Ended())
            one.tasks += 1
            one.bytes += task.page.size_bytes if task.page is not None else 0
            one.missed += task.event == "missed"
    return ended


async def _about_tasks(conn: Conn, task_ids: Sequence[int]) -> list[Delivery]:
    rng = Random()
    return [
        make_delivery(
            row["webhook_url"], f"task.{row['status']}", task_subject(row), occurred_at=row["completed_at"], rng=rng
        )
        for row in await ended_tasks(conn, task_ids)
    ]
