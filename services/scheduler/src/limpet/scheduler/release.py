"""Children hear that their parent has ended: they become due, or are cancelled with it, as they chose."""

from __future__ import annotations

from datetime import timedelta

from limpet.kit.pg import Conn
from limpet.scheduler.conclude import conclude
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.store.children import awaiting, forget_ends, free_children, peek_ends
from limpet.scheduler.store.domains import lock_domain_ids, wake_domains
from limpet.scheduler.store.tasks import change_tasks, lock_free_tasks


async def release_children(conn: Conn, *, limit: int, parse_lease: timedelta) -> int:
    """A child that somebody holds is left for the next time; its parent is forgotten when all have heard."""
    ends = await peek_ends(conn, limit=limit)
    if not ends:
        return 0
    children = await awaiting(conn, list(ends), limit=limit)
    tasks = await lock_free_tasks(conn, [child.task_id for child in children])
    doomed: list[tuple[Status, TaskRow]] = []
    free: list[TaskRow] = []
    for child in children:
        task = tasks.get(child.task_id)
        if task is None:
            continue
        if ends[child.parent_task_id] == Status.COMPLETED or child.on_parent_failure == "release":
            free.append(task)
        else:
            doomed.append((task.status, task))
            task.become("parent_failed", Status.CANCELLED)
            task.paused_from = None
            task.error = f"task {child.parent_task_id}, which it waited for, ended as {ends[child.parent_task_id]}"
    heard = [*free, *(task for _, task in doomed)]
    await lock_domain_ids(conn, sorted({task.domain_id for task in heard}))
    await free_children(conn, [task.task_id for task in heard])
    await change_tasks(conn, doomed, parse_lease=parse_lease, actor="scheduler")
    await wake_domains(conn, [(task.domain_id, task.group_key, task.priority) for task in free])
    await conclude(conn, [task for _, task in doomed])
    if len(children) < limit and len(tasks) == len(children):
        await forget_ends(conn, list(ends))
    return len(heard)
