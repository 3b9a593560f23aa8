"""Tasks in every status, each brought there by the scheduler's own flow, and what must hold whatever happens to them."""

from __future__ import annotations

from datetime import timedelta

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.pg import Pool
from limpet.scheduler.act import Done, Wish, act
from limpet.scheduler.command import Command
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.ripen import Ripen
from limpet.scheduler.store.permits import Permit
from limpet.scheduler.store.tasks import mark_crawling, mark_parsing
from limpet.scheduler.submit import submit
from tests.support.scheduling import grant, make_settle, page, status_of


async def ask(pool: Pool, command: Command, *task_ids: int) -> Done:
    async with pool.acquire() as conn, conn.transaction():
        return await act(conn, task_ids, Wish(command, "operate"))


async def ripen(pool: Pool) -> None:
    await Ripen(pool, every=1, freed=lambda: None, parse_lease=timedelta(seconds=60)).round()


def lost(permit: Permit) -> FetchFailed:
    return FetchFailed(
        task_id=permit.task_id, attempt=permit.attempt, kind=FailureKind.FAILURE_KIND_NETWORK, error="reset"
    )


def gone(permit: Permit) -> FetchFailed:
    return FetchFailed(
        task_id=permit.task_id, attempt=permit.attempt, kind=FailureKind.FAILURE_KIND_CLIENT_ERROR, error="404"
    )


async def make_task(pool: Pool, status: Status, *, batch: str | None = None, host: str = "shop.test") -> int:
    """A new task in this status. Others that are due come along when it is granted, so make pending ones last."""
    result = await submit(pool, [{"url": f"http://{host}/in/{status}"}], batch=batch)
    (task_id,) = result.created.values()
    if status in (Status.PAUSED, Status.CANCELLED):
        await ask(pool, Command.PAUSE if status is Status.PAUSED else Command.CANCEL, task_id)
    elif status is not Status.PENDING:
        (permit,) = [permit for permit in await grant(pool) if permit.task_id == task_id]
        await _drive(pool, permit, status)
    assert await status_of(pool, task_id) == status
    return task_id


async def _drive(pool: Pool, permit: Permit, status: Status) -> None:
    settle = make_settle(pool)
    key = (permit.task_id, permit.attempt)
    match status:
        case Status.CRAWLING:
            async with pool.acquire() as conn:
                await mark_crawling(conn, [key])
        case Status.FAILED:
            await settle.settle([gone(permit)])
        case Status.DOWNLOADED:
            await settle.settle([page(permit), ParseFailed(page=page(permit), error="no", retryable=True)])
        case Status.QUEUED_PARSE | Status.PARSING:
            await settle.settle([page(permit)])
            if status is Status.PARSING:
                async with pool.acquire() as conn:
                    await mark_parsing(conn, [key])
        case Status.COMPLETED:
            await settle.settle([PageParsed(page=page(permit))])


async def make_tasks(pool: Pool, *, batch: str | None = None) -> dict[Status, int]:
    """One task in each of the ten statuses."""
    last = (Status.PAUSED, Status.PENDING)
    order = [*(status for status in Status if status not in last), *last]
    return {status: await make_task(pool, status, batch=batch) for status in order}


# Each line names what is wrong, with the task or domain that it is wrong of.
WRONG = """
    SELECT 'not in one place: ' || t.task_id FROM crawl_tasks t
     WHERE t.status = 'pending'
       AND (SELECT count(*) FROM due_tasks d WHERE d.task_id = t.task_id AND d.domain_id = t.domain_id AND d.due_at = t.scheduled_at
                AND d.priority = t.priority AND d.group_key = coalesce(t.group_key, ''))
         + (SELECT count(*) FROM waiting_tasks w WHERE w.task_id = t.task_id AND w.wake_at = t.scheduled_at)
         <> CASE WHEN t.awaits_parent THEN 0 ELSE 1 END
    UNION ALL
    SELECT 'queued, not pending: ' || d.task_id FROM due_tasks d JOIN crawl_tasks t USING (task_id) WHERE t.status <> 'pending'
    UNION ALL
    SELECT 'twice in the queue: ' || task_id FROM due_tasks GROUP BY task_id HAVING count(*) > 1
    UNION ALL
    SELECT 'in the calendar for nothing: ' || w.task_id FROM waiting_tasks w JOIN crawl_tasks t USING (task_id)
     WHERE NOT (t.status = 'pending' AND w.wake_at = t.scheduled_at) AND w.wake_at IS DISTINCT FROM t.next_crawl_at
    UNION ALL
    SELECT 'next crawl not in the calendar: ' || t.task_id FROM crawl_tasks t
     WHERE t.next_crawl_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM waiting_tasks w WHERE w.task_id = t.task_id AND w.wake_at = t.next_crawl_at)
    UNION ALL
    SELECT 'recurs, has no next crawl: ' || t.task_id FROM crawl_tasks t
     WHERE (t.is_recurring AND t.status IN ('completed', 'failed')) <> (t.next_crawl_at IS NOT NULL)
    UNION ALL
    SELECT 'in flight: ' || d.name FROM domains d
     WHERE d.in_flight <> (SELECT count(*) FROM permits p WHERE p.domain_id = d.domain_id)
    UNION ALL
    SELECT 'group in flight: ' || g.group_key FROM domain_groups g
     WHERE g.in_flight <> (SELECT count(*) FROM permits p WHERE p.domain_id = g.domain_id AND p.group_key = g.group_key)
    UNION ALL
    SELECT 'a group with due tasks is closed: ' || d.group_key FROM due_tasks d
     WHERE d.group_key <> '' AND NOT EXISTS (SELECT FROM domain_groups g WHERE g.domain_id = d.domain_id
                                                AND g.group_key = d.group_key AND g.has_due AND g.head_priority <= d.priority)
    UNION ALL
    SELECT 'sleeps over due tasks: ' || d.name FROM domains d
     WHERE d.ready_at = 'infinity' AND d.in_flight = 0 AND d.robots_unread = 0
       AND EXISTS (SELECT FROM due_tasks q WHERE q.domain_id = d.domain_id)
    UNION ALL
    SELECT 'stands elsewhere in the queue of domains: ' || d.name FROM domains d
     WHERE d.place IS DISTINCT FROM place_of(d.is_active, d.in_flight, d.limit_now, d.ready_at)
        OR (d.place IS NULL AND EXISTS (SELECT FROM ready_domains q WHERE q.domain_id = d.domain_id))
        OR (d.place IS NOT NULL AND NOT EXISTS (SELECT FROM ready_domains q WHERE q.domain_id = d.domain_id AND q.place = d.place))
    UNION ALL
    SELECT 'twice in the queue of domains: ' || domain_id FROM ready_domains GROUP BY domain_id HAVING count(*) > 1
    UNION ALL
    SELECT 'has groups, does not say so: ' || g.domain_id FROM domain_groups g JOIN domains d USING (domain_id) WHERE NOT d.grouped
    UNION ALL
    SELECT 'fetching without a permit: ' || t.task_id FROM crawl_tasks t
     WHERE t.status IN ('queued', 'crawling')
       AND NOT EXISTS (SELECT FROM permits p WHERE p.task_id = t.task_id AND p.attempt = t.attempt)
    UNION ALL
    SELECT 'parse lease: ' || t.task_id FROM crawl_tasks t
     WHERE (t.status IN ('downloaded', 'queued_parse', 'parsing'))
        <> EXISTS (SELECT FROM parse_leases l WHERE l.task_id = t.task_id)
    UNION ALL
    SELECT 'open tasks of batch: ' || b.name FROM batches b
     WHERE b.open_tasks <> (SELECT count(*) FROM crawl_tasks t WHERE t.batch_id = b.batch_id
                               AND t.status NOT IN ('completed', 'failed', 'cancelled'))
        OR (b.open_tasks = 0 AND b.pages > 0) <> (b.ended_at IS NOT NULL)
    UNION ALL
    SELECT 'the audit ends elsewhere: ' || t.task_id FROM crawl_tasks t
     WHERE NOT EXISTS (SELECT FROM audit a WHERE a.task_id = t.task_id AND a.target = t.status
                          AND a.at = (SELECT max(at) FROM audit WHERE task_id = t.task_id))
"""


async def check_all_is_right(pool: Pool) -> None:
    """Queue, calendar, counters, leases and audit agree with the tasks."""
    wrong = [row[0] for row in await pool.fetch(WRONG)]
    assert not wrong, wrong
