"""The queue and the calendar: pending tasks that are due, and all that is to wake at a later time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from limpet.kit.pg import Conn


class Due(NamedTuple):
    """A place in the queue; all of it together is its key. No group is ''."""

    domain_id: int
    group_key: str
    priority: int
    due_at: datetime
    task_id: int
    # Where its row is stored, known while somebody reads the queue: a short way back to it.
    row: tuple[int, int] | None = None


# From each domain the first tasks of no group, and of its groups that have something due and are not full. Each of these is
# one short walk along the index, whatever is queued behind it or in groups that are full. One more than there is room for tells
# whether there are others.
PICK_DUE: Final = """
    WITH room AS (
        SELECT * FROM unnest($1::bigint[], $2::int[], $4::boolean[]) AS r(domain_id, room, grouped)
    ), lane AS (
        SELECT domain_id, '' AS group_key, room, room + 1 AS free FROM room
         UNION ALL
        SELECT room.domain_id, g.group_key, room.room, least(room.room, g.limit_now - g.in_flight)
          FROM room CROSS JOIN LATERAL (
               SELECT group_key, limit_now, in_flight FROM domain_groups
                WHERE domain_id = room.domain_id AND has_due AND in_flight < limit_now
                ORDER BY head_priority, served_at LIMIT $3) AS g
         WHERE room.grouped
    ), first AS (
        SELECT lane.domain_id, lane.group_key, d.priority, d.due_at, d.task_id, d.row, lane.room,
               row_number() OVER (PARTITION BY lane.domain_id ORDER BY d.priority, d.due_at, d.task_id) AS turn
          FROM lane LEFT JOIN LATERAL (
               SELECT priority, due_at, task_id, ctid AS row FROM due_tasks
                WHERE domain_id = lane.domain_id AND group_key = lane.group_key
                ORDER BY priority, due_at, task_id LIMIT lane.free) AS d ON true
    )
    SELECT domain_id, group_key, priority, due_at, task_id, row, turn > room AS is_beyond FROM first
     WHERE task_id IS NULL OR turn <= room + 1 ORDER BY turn, priority
"""
# Groups looked at in one domain in one round; those with the most urgent tasks come first, then those served least lately.
_LANES = 64


class Picked(NamedTuple):
    """The tasks to serve next, the first of every domain first; lanes that turned out to be empty; domains that have more."""

    tasks: list[Due]
    empty: list[tuple[int, str]]
    more: set[int]


async def pick_due(conn: Conn, room: dict[int, int], *, grouped: Sequence[bool]) -> Picked:
    """Up to so many of each domain. Where no task ever had a group, none is looked for."""
    rows = await conn.fetch(PICK_DUE, list(room), list(room.values()), _LANES, list(grouped))
    return Picked(
        [Due(*row[:6]) for row in rows if row[4] is not None and not row[6]],
        [(row[0], row[1]) for row in rows if row[4] is None],
        {row[0] for row in rows if row[4] is not None and row[6]},
    )


ADD_DUE: Final = """
    INSERT INTO due_tasks (domain_id, group_key, priority, due_at, task_id)
    SELECT domain_id, coalesce(group_key, ''), priority, scheduled_at, task_id FROM crawl_tasks
     WHERE task_id = ANY($1::bigint[]) AND status = 'pending' AND NOT awaits_parent
    ON CONFLICT DO NOTHING
"""


async def queue(conn: Conn, task_ids: Sequence[int]) -> None:
    """Put pending tasks whose time has come into the queue."""
    if task_ids:
        await conn.execute(ADD_DUE, list(task_ids))


# The calendar first: what wakes up meanwhile is in the queue by the time that we look there.
DROP_WAITING: Final = """
    DELETE FROM waiting_tasks w USING unnest($1::bigint[], $2::timestamptz[]) AS gone(task_id, wake_at)
     WHERE w.wake_at = gone.wake_at AND w.task_id = gone.task_id
"""
DROP_DUE: Final = """
    DELETE FROM due_tasks d
     USING unnest($1::bigint[], $2::text[], $3::smallint[], $4::timestamptz[], $5::bigint[])
           AS gone(domain_id, group_key, priority, due_at, task_id)
     WHERE d.domain_id = gone.domain_id AND d.group_key = gone.group_key AND d.priority = gone.priority
       AND d.due_at = gone.due_at AND d.task_id = gone.task_id
"""


async def unqueue(conn: Conn, places: Sequence[Due], *, wakes: Sequence[tuple[int, datetime]] = ()) -> None:
    """Take tasks out of queue and calendar, wherever they are. Their rows are locked by the caller.

    `wakes` are the further places in the calendar where ended tasks wait for their next crawl.
    """
    if places or wakes:
        times = [(place.task_id, place.due_at) for place in places] + list(wakes)
        await conn.execute(DROP_WAITING, [one[0] for one in times], [one[1] for one in times])
    if places:
        await conn.execute(
            DROP_DUE,
            [place.domain_id for place in places],
            [place.group_key for place in places],
            [place.priority for place in places],
            [place.due_at for place in places],
            [place.task_id for place in places],
        )


PEEK_RIPE: Final = """
    SELECT task_id, wake_at FROM waiting_tasks WHERE wake_at <= now() ORDER BY wake_at, task_id LIMIT $1
"""


async def peek_ripe(conn: Conn, *, limit: int) -> list[tuple[int, datetime]]:
    """What has come due in the calendar. Nothing is locked: whoever takes it out locks its task first."""
    return [(row["task_id"], row["wake_at"]) for row in await conn.fetch(PEEK_RIPE, limit)]


TAKE_RIPE: Final = """
    DELETE FROM waiting_tasks w USING unnest($1::bigint[], $2::timestamptz[]) AS ripe(task_id, wake_at)
     WHERE w.wake_at = ripe.wake_at AND w.task_id = ripe.task_id RETURNING w.task_id, w.wake_at
"""


async def take_ripe(conn: Conn, ripe: Sequence[tuple[int, datetime]]) -> list[tuple[int, datetime]]:
    """Take these out of the calendar; returns those that were still there."""
    rows = await conn.fetch(TAKE_RIPE, [one[0] for one in ripe], [one[1] for one in ripe])
    return [(row["task_id"], row["wake_at"]) for row in rows]
