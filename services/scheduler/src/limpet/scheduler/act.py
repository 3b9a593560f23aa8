"""A person acts on tasks: pause, resume, cancel, restart, parse again, another priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.pg import Conn, Pool
from limpet.scheduler.again import try_again
from limpet.scheduler.command import EVENTS, Command, is_done, obey, refusal
from limpet.scheduler.conclude import conclude
from limpet.scheduler.lifecycle import TERMINAL, Status
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.store.batches import reopen_batches
from limpet.scheduler.store.domains import lock_domain_ids, wake_domains
from limpet.scheduler.store.parse_leases import count_pages_again, stored_pages
from limpet.scheduler.store.queues import unqueue
from limpet.scheduler.store.task_lists import failed_tasks, tasks_of_batch
from limpet.scheduler.store.tasks import change_tasks, lock_tasks, prioritize_task, read_clock, recrawl_tasks

# So many tasks are changed in one transaction: nobody waits long for their locks.
CHUNK = 1000
# Where each command finds tasks of a batch: their resting status, None for those that are on their way.
RESTING: dict[Command, tuple[str | None, ...]] = {
    Command.PAUSE: (None,),
    Command.RESUME: ("paused",),
    Command.CANCEL: (None, "paused"),
    Command.RESTART: tuple(sorted(TERMINAL)),
}


@dataclass(frozen=True)
class Wish:
    command: Command
    # The role of whoever asks.
    actor: str
    reset_retry_count: bool = True
    priority: int | None = None
    scheduled_at: datetime | None = None


@dataclass
class Done:
    """What came of a wish. A task that is in neither is as it was wished already."""

    changed: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


async def act(conn: Conn, task_ids: Sequence[int], wish: Wish) -> Done:
    """Change those of the tasks that may be changed. Call inside a transaction."""
    done = Done()
    tasks = await lock_tasks(conn, sorted(task_ids))
    parsing = wish.command is Command.RESTART_PARSING
    pages = await stored_pages(conn, list(tasks)) if parsing else {}
    chosen: list[tuple[Status, TaskRow]] = []
    for task in tasks.values():
        if is_done(wish.command, task):
            continue
        if why := refusal(wish.command, task):
            done.refused[task.task_id] = why
        elif parsing and task.task_id not in pages:
            done.refused[task.task_id] = f"is {task.status}, but no page of it is stored; restart fetches one"
        else:
            chosen.append((task.status, task))
    if not chosen:
        return done
    # Before the queue is touched: a scheduler that picks from it holds the domain, and must not find another place than it saw.
    await lock_domain_ids(conn, sorted({task.domain_id for _, task in chosen}))
    due = await _restart(conn, chosen, wish) if wish.command is Command.RESTART else await _change(conn, chosen, wish)
    if parsing:
        again = [(task.task_id, PageFetched.FromString(pages[task.task_id]).attempt) for _, task in chosen]
        await count_pages_again(conn, again, reset=wish.reset_retry_count)
    await wake_domains(conn, due)
    left = [task.batch_id for before, task in chosen if before in TERMINAL and task.batch_id is not None]
    await reopen_batches(conn, left)
    await conclude(conn, [task for _, task in chosen])
    done.changed = [task.task_id for _, task in chosen]
    return done


async def _restart(
    conn: Conn, chosen: Sequence[tuple[Status, TaskRow]], wish: Wish
) -> list[tuple[int, str | None, int]]:
    """Returns what is due now: domain, group, priority."""
    for _, task in chosen:
        obey(wish.command, task)
    rows = await recrawl_tasks(
        conn,
        [(task.task_id, wish.scheduled_at, wish.priority) for _, task in chosen],
        event=EVENTS[wish.command],
        actor=wish.actor,
        reset=wish.reset_retry_count,
    )
    return [(row["domain_id"], row["group_key"], row["priority"]) for row in rows if row["is_due"]]


async def _change(
    conn: Conn, chosen: Sequence[tuple[Status, TaskRow]], wish: Wish
) -> list[tuple[int, str | None, int]]:
    """Returns what is due now: domain, group, priority."""
    for _, task in chosen:
        obey(wish.command, task)
        if wish.command is Command.RESTART_PARSING and wish.reset_retry_count:
            task.parse_errors = 0
    wakes = [(task.task_id, task.next_crawl_at) for _, task in chosen if task.next_crawl_at is not None]
    await unqueue(conn, [], wakes=wakes)
    await change_tasks(conn, chosen, parse_lease=timedelta(0), actor=wish.actor)
    now = await read_clock(conn)
    return [
        (task.domain_id, task.group_key, task.priority)
        for _, task in chosen
        if task.status is Status.PENDING and task.scheduled_at <= now
    ]


async def prioritize(conn: Conn, task_id: int, priority: int) -> str | None:
    """Another place in the queue, now or when it gets there. Returns why not. Call inside a transaction."""
    task = (await lock_tasks(conn, [task_id]))[task_id]
    if task.kind != "page":
        return refusal(Command.PAUSE, task)
    await lock_domain_ids(conn, [task.domain_id])
    if await prioritize_task(conn, task.place, priority):
        await wake_domains(conn, [(task.domain_id, task.group_key, priority)])
    return None


async def act_on_batch(pool: Pool, batch_id: int, wish: Wish, *, size: int = CHUNK) -> int:
    """All of a batch that can be changed, chunk by chunk. Returns how many were."""
    changed = 0
    for resting in RESTING[wish.command]:
        after = 0
        while after >= 0:

            async def chunk(conn: Conn, resting: str | None = resting, after: int = after) -> tuple[int, int]:
                found = await tasks_of_batch(conn, batch_id, resting=resting, after=after, limit=size)
                done = await act(conn, found, wish)
                return found[-1] if len(found) == size else -1, len(done.changed)

            after, some = await try_again(pool, chunk)
            changed += some
    return changed


async def restart_failed(
    pool: Pool, *, domain: str | None, failed_after: datetime | None, limit: int, actor: str
) -> list[int]:
    """The failed tasks, the oldest first, chunk by chunk. Returns which."""
    wish = Wish(Command.RESTART, actor)
    restarted: list[int] = []
    after = 0
    while after >= 0 and len(restarted) < limit:
        size = min(CHUNK, limit - len(restarted))

        async def chunk(conn: Conn, after: int = after, size: int = size) -> tuple[int, list[int]]:
            found = await failed_tasks(conn, domain=domain, failed_after=failed_after, after=after, limit=size)
            done = await act(conn, found, wish)
            return found[-1] if len(found) == size else -1, done.changed

        after, some = await try_again(pool, chunk)
        restarted += some
    return restarted
