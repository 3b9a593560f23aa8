"""What explain looks at: a task with all that hangs on it. Nothing is locked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn
from limpet.scheduler.facts import TaskFacts
from limpet.scheduler.lifecycle import Status

# The change that counts is the last one into the status it has: transactions may end in another order than they began.
GET_FACTS: Final = """
    SELECT t.task_id, t.url, coalesce(t.moved_to, t.url) AS goes_to, d.name AS domain, t.kind, t.status, t.attempt, t.priority,
           t.scheduled_at, t.group_key, t.fetch_errors, t.blocks, t.parse_errors, t.max_retries, t.error_message, t.note,
           t.next_crawl_at, t.completed_at, t.updated_at, t.paused_from, t.awaits_parent, t.on_parent_failure,
           t.parent_task_id, parent.url AS parent_url, parent.status AS parent_status,
           EXISTS (SELECT FROM due_tasks q
                    WHERE q.domain_id = t.domain_id AND q.group_key = coalesce(t.group_key, '') AND q.priority = t.priority
                      AND q.due_at = t.scheduled_at AND q.task_id = t.task_id) AS in_queue,
           EXISTS (SELECT FROM waiting_tasks w WHERE w.wake_at = t.scheduled_at AND w.task_id = t.task_id) AS in_calendar,
           p.slot_at, p.lease_until AS permit_until, l.lease_until AS parse_until, coalesce(g.in_flight, 0) AS group_in_flight,
           coalesce(g.limit_now, d.max_per_group) AS group_limit, change.at AS changed_at, change.event, change.actor,
           change.reason, clock_timestamp() AS now, listed.run_id, listed.start_no, run.state AS run_state
      FROM crawl_tasks t
      JOIN domains d USING (domain_id)
      LEFT JOIN crawl_tasks parent ON parent.task_id = t.parent_task_id
      LEFT JOIN run_pages listed ON listed.task_id = t.task_id
      LEFT JOIN runs run ON run.run_id = listed.run_id
      LEFT JOIN permits p ON p.task_id = t.task_id AND p.attempt = t.attempt
      LEFT JOIN parse_leases l ON l.task_id = t.task_id
      LEFT JOIN domain_groups g ON g.domain_id = t.domain_id AND g.group_key = t.group_key
      LEFT JOIN LATERAL (
           SELECT a.at, a.event, a.actor, a.reason FROM audit a
            WHERE a.task_id = t.task_id AND a.target = t.status ORDER BY a.at DESC LIMIT 1) AS change ON true
     WHERE t.task_id = $1
"""
_FIELDS = tuple(TaskFacts.__dataclass_fields__)


async def get_facts(conn: Conn, task_id: int) -> TaskFacts | None:
    row = await conn.fetchrow(GET_FACTS, task_id)
    if row is None:
        return None
    return TaskFacts(**{name: row[name] for name in _FIELDS if name != "status"}, status=Status(row["status"]))


# The lanes that a round would look at, and its own; in each of them one short walk along the index.
COUNT_AHEAD: Final = """
    WITH place AS (
        SELECT domain_id, coalesce(group_key, '') AS group_key, priority, scheduled_at AS due_at, task_id
          FROM crawl_tasks WHERE task_id = $1
    ), lane AS (
        SELECT '' AS group_key
         UNION
        SELECT group_key FROM place
         UNION
        (SELECT g.group_key FROM domain_groups g JOIN place USING (domain_id)
          WHERE g.has_due AND g.in_flight < g.limit_now ORDER BY g.head_priority, g.served_at LIMIT 64)
    )
    SELECT count(*) FROM (
        SELECT FROM place, lane CROSS JOIN LATERAL (
               SELECT FROM due_tasks q
                WHERE q.domain_id = place.domain_id AND q.group_key = lane.group_key
                  AND (q.priority, q.due_at, q.task_id) < (place.priority, place.due_at, place.task_id) LIMIT $2) AS before
         LIMIT $2) AS ahead
"""


async def count_ahead(conn: Conn, task_id: int, *, most: int) -> int:
    """How many of its domain come before it, counted up to that number."""
    return int(await conn.fetchval(COUNT_AHEAD, task_id, most))


@dataclass(frozen=True)
class RobotsTask:
    url: str
    status: str
    scheduled_at: datetime
    created_at: datetime
    fetch_errors: int


ROBOTS_TASKS: Final = """
    SELECT url, status, scheduled_at, created_at, fetch_errors FROM crawl_tasks WHERE url_hash = ANY($1::bytea[])
"""


async def robots_tasks(conn: Conn, digests: Sequence[bytes]) -> dict[str, RobotsTask]:
    """The tasks that read these robots.txt, by their URLs."""
    return {row["url"]: RobotsTask(*row) for row in await conn.fetch(ROBOTS_TASKS, list(digests))}


HAS_TASKS_ON: Final = """
    SELECT EXISTS (SELECT FROM crawl_tasks t JOIN domains d USING (domain_id) WHERE t.batch_id = $1 AND d.name = $2)
"""


async def has_tasks_on(conn: Conn, batch_id: int, domain: str) -> bool:
    return bool(await conn.fetchval(HAS_TASKS_ON, batch_id, domain))


# One look at the index for each domain, whatever the size of the batch.
HOSTS_OF: Final = """
    SELECT d.name FROM domains d
     WHERE EXISTS (SELECT FROM crawl_tasks t WHERE t.domain_id = d.domain_id AND t.batch_id = $1) ORDER BY d.domain_id LIMIT 20
"""


async def hosts_of(conn: Conn, batch_id: int) -> list[str]:
    """Some of the domains that a batch has tasks on, the oldest first."""
    return [row["name"] for row in await conn.fetch(HOSTS_OF, batch_id)]
