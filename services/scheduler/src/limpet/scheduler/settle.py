"""Facts move tasks on: batches of them in one transaction, late and repeated ones change nothing."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import asyncpg
import structlog
from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FetchFailed, FetchReturned
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit import tracing
from limpet.kit.bus import subject_of
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Permanent, Retryable
from limpet.kit.gather import Gather
from limpet.kit.pg import COLLIDED, Conn, Pool
from limpet.scheduler.discover import Discover, Found
from limpet.scheduler.history import attempts_of
from limpet.scheduler.lifecycle import PARSE_PHASE, TERMINAL, Status
from limpet.scheduler.metrics import FACTS_SETTLED, SETTLE_SECONDS
from limpet.scheduler.outcome import TaskRow, apply
from limpet.scheduler.retry import RetryPolicy
from limpet.scheduler.store.attempts import add_attempts
from limpet.scheduler.store.domains import give_back, give_back_groups, lock_domain_ids
from limpet.scheduler.store.link_parts import count_link_parts
from limpet.scheduler.store.permits import release_permits
from limpet.scheduler.store.tasks import change_tasks, lock_tasks

log = structlog.get_logger()

LINGER = 0.005
MOST_MESSAGES = 16
AT_ONCE = 2
KINDS: dict[str, type[Message]] = {
    subject_of(kind): kind for kind in (PageFetched, PageRejected, FetchFailed, FetchReturned, PageParsed, ParseFailed)
}


def key_of(fact: Message) -> tuple[int, int]:
    """Task and attempt."""
    source = fact.page if isinstance(fact, PageParsed | ParseFailed) else fact
    return source.task_id, source.attempt  # type: ignore[attr-defined]


def _may_complete(task: TaskRow | None, fact: PageParsed) -> bool:
    """Nobody takes the links of an attempt that is over, so nobody may wait for them."""
    return task is not None and task.status not in TERMINAL and task.is_current(fact.page.attempt)


@dataclass
class Settle:
    pool: Pool
    discover: Discover
    policy: RetryPolicy
    parse_lease: timedelta
    freed: Callable[[], None]
    rng: Random = field(default_factory=Random)

    def __post_init__(self) -> None:
        self._messages: Gather[Sequence[Message], Exception | None] = Gather(
            self._settle_many, linger=LINGER, most=MOST_MESSAGES, at_once=AT_ONCE
        )

    async def on_facts(self, delivery: Delivery) -> None:
        """One message holds many records of one kind; messages of the same moment are settled together."""
        kind = KINDS.get(delivery.subject)
        if kind is None:
            raise Permanent(f"nobody settles {delivery.subject}")
        if error := await self._messages.add(delivery.records(kind)):
            raise error
        self.freed()

    async def _settle_many(self, messages: Sequence[Sequence[Message]]) -> Sequence[Exception | None]:
        """A page that was fetched and parsed meanwhile moves on in one step. One bad message costs only itself."""
        started = time.monotonic()
        try:
            waiting = await self._settle([fact for facts in messages for fact in facts])
        except COLLIDED as error:
            return [Retryable(f"settling collided: {error}")] * len(messages)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
            if len(messages) == 1:
                return [error]
            return [(await self._settle_many([facts]))[0] for facts in messages]
        SETTLE_SECONDS.observe(time.monotonic() - started)
        return [
            Retryable("some pages wait for the rest of their links")
            if any(key_of(fact) in waiting for fact in facts if isinstance(fact, PageParsed))
            else None
            for facts in messages
        ]

    async def settle(self, facts: Sequence[Message]) -> None:
        if waiting := await self._settle(facts):
            raise Retryable(f"{len(waiting)} pages wait for the rest of their links")

    async def _settle(self, facts: Sequence[Message]) -> set[tuple[int, int]]:
        """Returns the pages that cannot be completed yet."""
        if not facts:
            return set()
        async with self.pool.acquire() as conn, conn.transaction():
            tasks = await lock_tasks(conn, sorted({key_of(fact)[0] for fact in facts}))
            before = {task_id: task.status for task_id, task in tasks.items()}
            waiting = await self._waiting_for_links(conn, facts, tasks)
            heard = [fact for fact in facts if not (isinstance(fact, PageParsed) and key_of(fact) in waiting)]
            taken = [fact for fact in heard if self._apply(tasks, fact)]
            changed = [(before[task_id], task) for task_id, task in tasks.items() if task.changed]
            await change_tasks(conn, changed, parse_lease=self.parse_lease)
            known = {task_id for task_id, status in before.items() if status in PARSE_PHASE}
            await add_attempts(
                conn, [row for fact in heard for row in attempts_of(fact, fetch_known=key_of(fact)[0] in known)]
            )
            # A page that waits keeps its permit: should all else of it be lost, the permit brings the task back.
            back = await release_permits(conn, [key_of(fact) for fact in heard])
            found = self._links(tasks, taken)
            await self._give_back(conn, back, [task for _, task in changed], also={task.domain_id for task in found})
            admitted = await self.discover.add(conn, found)
        self.discover.remember(admitted)
        changes, all_heard = (Counter(type(fact) for fact in some) for some in (taken, heard))
        for kind, count in all_heard.items():
            FACTS_SETTLED.labels(kind.DESCRIPTOR.name, "changed").inc(changes[kind])
            FACTS_SETTLED.labels(kind.DESCRIPTOR.name, "ignored").inc(count - changes[kind])
        for fact in taken:
            self._trace(fact, tasks[key_of(fact)[0]])
        return waiting

    def _apply(self, tasks: dict[int, TaskRow], fact: Message) -> bool:
        task = tasks.get(key_of(fact)[0])
        return task is not None and apply(task, fact, policy=self.policy, rng=self.rng)

    async def _waiting_for_links(
        self, conn: Conn, facts: Sequence[Message], tasks: dict[int, TaskRow]
    ) -> set[tuple[int, int]]:
        """Pages with more links than fit into one message complete only when every part has been taken."""
        parts = {
            key_of(fact): fact.link_parts
            for fact in facts
            if isinstance(fact, PageParsed) and fact.link_parts and _may_complete(tasks.get(fact.page.task_id), fact)
        }
        if not parts:
            return set()
        there = await count_link_parts(conn, list(parts))
        return {key for key, count in parts.items() if there.get(key, 0) < count}

    def _links(self, tasks: dict[int, TaskRow], taken: Sequence[Message]) -> list[Found]:
        return [
            Found(task.domain_id, task.batch_id, [link.url for link in fact.links])
            for fact in taken
            if isinstance(fact, PageParsed) and fact.links and (task := tasks[key_of(fact)[0]]).batch_id is not None
        ]

    async def _give_back(
        self, conn: Conn, back: list[tuple[int, str | None, int]], changed: list[TaskRow], *, also: set[int]
    ) -> None:
        counts: dict[int, int] = defaultdict(int)
        holds: dict[int, tuple[float, str]] = {}
        waits: dict[int, float] = {}
        for domain_id, _, count in back:
            counts[domain_id] += count
        for task in changed:
            if task.hold > holds.get(task.domain_id, (0.0, ""))[0]:
                holds[task.domain_id] = (task.hold, task.hold_reason)
            if task.status is Status.PENDING:
                waits[task.domain_id] = min(task.wait, waits.get(task.domain_id, task.wait))
        touched = sorted(counts.keys() | holds.keys() | waits.keys() | also)
        if not touched:
            return
        await lock_domain_ids(conn, touched)
        rows = [
            (d, counts.get(d, 0), holds.get(d, (0.0, ""))[0], waits.get(d), holds.get(d, (0.0, ""))[1]) for d in touched
        ]
        await give_back(conn, [row for row in rows if row[1] or row[2] or row[3] is not None])
        await give_back_groups(
            conn, [(domain_id, group, count) for domain_id, group, count in back if group is not None]
        )

    def _trace(self, fact: Message, task: TaskRow) -> None:
        source = fact.page if isinstance(fact, PageParsed | ParseFailed) else fact
        traceparent: str = source.traceparent  # type: ignore[attr-defined]
        if tracing.is_sampled(traceparent):
            with tracing.use(traceparent):
                log.info(
                    "task_settled",
                    task_id=task.task_id,
                    attempt=task.attempt,
                    fact=fact.DESCRIPTOR.name,
                    status=task.status.value,
                )
