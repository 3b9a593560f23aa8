"""Tasks that wait for another one to end, and the ends that they have not heard of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from limpet.kit.pg import Conn

MARK_PARENTS: Final = """
    UPDATE crawl_tasks SET has_children = true WHERE task_id = ANY($1::bigint[]) AND NOT has_children
"""


async def mark_parents(conn: Conn, task_ids: Sequence[int]) -> None:
    """Others wait for these tasks, which are locked by the caller."""
    if task_ids:
        await conn.execute(MARK_PARENTS, list(task_ids))


ADD_ENDS: Final = """
    INSERT INTO parent_ends (task_id, outcome) SELECT * FROM unnest($1::bigint[], $2::text[])
    ON CONFLICT (task_id) DO UPDATE SET outcome = excluded.outcome
"""


async def add_ends(conn: Conn, ends: Sequence[tuple[int, str]]) -> None:
    """These tasks have ended, and others wait for them."""
    if ends:
        await conn.execute(ADD_ENDS, [end[0] for end in ends], [end[1] for end in ends])


PEEK_ENDS: Final = """
    SELECT task_id, outcome FROM parent_ends ORDER BY task_id LIMIT $1
"""


async def peek_ends(conn: Conn, *, limit: int) -> dict[int, str]:
    return {row["task_id"]: row["outcome"] for row in await conn.fetch(PEEK_ENDS, limit)}


FORGET_ENDS: Final = """
    DELETE FROM parent_ends e WHERE e.task_id = ANY($1::bigint[])
       AND NOT EXISTS (SELECT FROM crawl_tasks c WHERE c.parent_task_id = e.task_id AND c.awaits_parent)
"""


async def forget_ends(conn: Conn, task_ids: Sequence[int]) -> None:
    await conn.execute(FORGET_ENDS, list(task_ids))


@dataclass(frozen=True)
class Child:
    task_id: int
    parent_task_id: int
    on_parent_failure: str


AWAITING: Final = """
    SELECT task_id, parent_task_id, on_parent_failure FROM crawl_tasks
     WHERE parent_task_id = ANY($1::bigint[]) AND awaits_parent LIMIT $2
"""


async def awaiting(conn: Conn, parents: Sequence[int], *, limit: int) -> list[Child]:
    return [Child(*row) for row in await conn.fetch(AWAITING, list(parents), limit)]


# A paused child only stops waiting: it takes its place when it is resumed.
FREE_CHILDREN: Final = """
    WITH freed AS (
        UPDATE crawl_tasks t SET awaits_parent = false, updated_at = now() WHERE t.task_id = ANY($1::bigint[])
     RETURNING t.task_id, t.domain_id, t.group_key, t.priority, t.scheduled_at, t.status
    ), planned AS (
        INSERT INTO waiting_tasks (wake_at, task_id)
        SELECT scheduled_at, task_id FROM freed WHERE status = 'pending' AND scheduled_at > now()
    )
    INSERT INTO due_tasks (domain_id, group_key, priority, due_at, task_id)
    SELECT domain_id, coalesce(group_key, ''), priority, scheduled_at, task_id FROM freed
     WHERE status = 'pending' AND scheduled_at <= now()
"""


async def free_children(conn: Conn, task_ids: Sequence[int]) -> None:
    """They wait no longer: each takes its place in queue or calendar."""
    if task_ids:
        await conn.execute(FREE_CHILDREN, list(task_ids))
