"""What follows when tasks have ended: their batches count down, those who wait for them hear of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from limpet.kit.pg import Conn
from limpet.scheduler.lifecycle import TERMINAL
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.store.batches import close_batches
from limpet.scheduler.store.children import add_ends


async def conclude(conn: Conn, tasks: Sequence[TaskRow]) -> None:
    """In the transaction that ended them. Of these tasks, those that ended count."""
    ended = [task for task in tasks if task.status in TERMINAL]
    if not ended:
        return
    await add_ends(conn, [(task.task_id, task.status.value) for task in ended if task.has_children])
    await close_batches(conn, Counter(task.batch_id for task in ended if task.batch_id is not None))
