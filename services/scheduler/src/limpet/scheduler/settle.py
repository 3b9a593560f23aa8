"""Facts move tasks on: batches of them in one transaction, late and repeated ones change nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Protocol

import asyncpg
import structlog
from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FetchFailed, FetchReturned, OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit import tracing
from limpet.kit.bus import subject_of
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Permanent, Retryable
from limpet.kit.gather import Gather
from limpet.kit.pg import COLLIDED, Conn, Pool
from limpet.scheduler.conclude import conclude
from limpet.scheduler.discover import Discover, Found, found_of, missing_of
from limpet.scheduler.give_back import give_back
from limpet.scheduler.hearsay import news_of
from limpet.scheduler.history import attempts_of
from limpet.scheduler.lifecycle import PARSE_PHASE, TERMINAL
from limpet.scheduler.metrics import FACTS_SETTLED, SETTLE_SECONDS
from limpet.scheduler.outcome import GUESSED, TaskRow, apply
from limpet.scheduler.paginate import Evidence, list_evidence
from limpet.scheduler.retry import RetryPolicy
from limpet.scheduler.robots import keep_robots
from limpet.scheduler.runs.collect import collect
from limpet.scheduler.store.attempts import add_attempts
from limpet.scheduler.store.link_parts import count_link_parts
from limpet.scheduler.store.permits import release_permits
from limpet.scheduler.store.probes import Answered, answer_probes
from limpet.scheduler.store.tasks import change_tasks, lock_tasks, urls_of

log = structlog.get_logger()

LINGER = 0.005
MOST_MESSAGES = 16
AT_ONCE = 2
KINDS: dict[str, type[Message]] = {
    subject_of(kind): kind for kind in (PageFetched, PageRejected, FetchFailed, FetchReturned, PageParsed, ParseFailed)
}
# A tuple is checked faster than a union.
OF_A_PARSE = (PageParsed, ParseFailed)


def key_of(fact: Message) -> tuple[int, int]:
    """Task and attempt."""
    source = fact.page if isinstance(fact, OF_A_PARSE) else fact
    return source.task_id, source.attempt  # type: ignore[attr-defined]


class Bodies(Protocol):
    def get_many(self, keys: Sequence[str]) -> Awaitable[Sequence[bytes | Permanent]]: ...


def _may_complete(task: TaskRow | None, fact: PageParsed) -> bool:
    """Nobody takes the links of an attempt that is over, so nobody may wait for them."""
    return task is not None and task.status not in TERMINAL and task.is_current(fact.page.attempt)


def answer_of_probe(task: TaskRow, fact: Message) -> Answered | None:
    """What the site said at an address that was probed; None while it has not said anything for good."""
    if isinstance(fact, PageParsed):
        return Answered(
            task.task_id, "answered", fact.page.http_status or None, fact.fingerprint, fact.simhash, fact.says_empty
        )
    if task.event == "missed":
        return Answered(task.task_id, "missing", task.http_status, b"", 0, says_empty=False)
    return None


@dataclass
class Settle:
    pool: Pool
    bodies: Bodies
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
        bodies = await self._robots_bodies(facts)
        keys = [key_of(fact) for fact in facts]
        async with self.pool.acquire() as conn, conn.transaction():
            tasks = await lock_tasks(conn, sorted({key[0] for key in keys}))
            before = {task_id: task.status for task_id, task in tasks.items()}
            waiting = await self._waiting_for_links(conn, facts, tasks)
            heard = [
                (key, fact)
                for key, fact in zip(keys, facts, strict=True)
                if not (key in waiting and isinstance(fact, PageParsed))
            ]
            taken = [fact for key, fact in heard if self._apply(tasks.get(key[0]), fact)]
            changed = [task for task in tasks.values() if task.changed]
            await change_tasks(
                conn,
                [(before[task.task_id], task) for task in changed],
                parse_lease=self.parse_lease,
                actor="scheduler",
            )
            known = {task_id for task_id, status in before.items() if status in PARSE_PHASE}
            await add_attempts(
                conn, [row for key, fact in heard for row in attempts_of(fact, fetch_known=key[0] in known)]
            )
            # A page that waits keeps its permit: should all else of it be lost, the permit brings the task back.
            released = await release_permits(conn, [key for key, _ in heard])
            found = await self._found(conn, tasks, taken)
            news = news_of(taken, tasks, before)
            await give_back(conn, released, news, also={task.domain_id for task in found})
            for task in changed:
                if task.robots is not None:
                    await keep_robots(conn, task, body=bodies.get(task.page.body_key) if task.page else None)
            await self._answer_probes(conn, tasks, taken)
            admitted = await self.discover.add(conn, found)
            await conclude(conn, changed)
            await collect(conn, taken, tasks)
        self.discover.remember(admitted)
        if released or found:
            # Only these make room or bring work: a round for nothing costs as much as settling a few pages.
            self.freed()
        changes, all_heard = Counter(map(type, taken)), Counter(type(fact) for _, fact in heard)
        for kind, count in all_heard.items():
            FACTS_SETTLED.labels(kind.DESCRIPTOR.name, "changed").inc(changes[kind])
            FACTS_SETTLED.labels(kind.DESCRIPTOR.name, "ignored").inc(count - changes[kind])
        for fact in taken:
            self._trace(fact, tasks)
        return waiting

    async def _robots_bodies(self, facts: Sequence[Message]) -> dict[str, bytes | Permanent]:
        """Bodies never travel in messages: a robots.txt is read from the page store."""
        keys = [
            fact.body_key
            for fact in facts
            if isinstance(fact, PageFetched) and fact.kind == OrderKind.ORDER_KIND_ROBOTS
        ]
        return dict(zip(keys, await self.bodies.get_many(keys), strict=True)) if keys else {}

    def _apply(self, task: TaskRow | None, fact: Message) -> bool:
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

    async def _found(self, conn: Conn, tasks: dict[int, TaskRow], taken: Sequence[Message]) -> list[Found]:
        """What pages of batches lead to, and what their lists have to be told."""
        pages: list[tuple[TaskRow, PageParsed]] = []
        missed: list[TaskRow] = []
        for fact in taken:
            task = tasks[key_of(fact)[0]]
            if task.batch_id is None or task.kind == "probe":
                # What a probe leads to is followed when it has been judged.
                continue
            if isinstance(fact, PageParsed):
                if fact.page.follow or fact.links:
                    pages.append((task, fact))
            elif task.event == "missed" and task.created_by == GUESSED:
                missed.append(task)
        lists: dict[int, Evidence] = {}
        for task, fact in pages:
            if task.kind == "page":
                guessed: Evidence | None = "sure" if task.created_by == GUESSED else None
                if evidence := guessed or list_evidence(fact.page_type, fact.page.url, fact.links):
                    lists[task.task_id] = evidence
        asked = [*lists, *(task.task_id for task in missed)]
        # A list knows its pages by the address that was asked for, whatever it led to.
        urls = await urls_of(conn, asked) if asked else {}
        found = [
            found_of(task, fact, list_url=urls.get(task.task_id), evidence=lists.get(task.task_id, "sure"))
            for task, fact in pages
        ]
        return found + [missing_of(task, list_url=urls[task.task_id]) for task in missed]

    async def _answer_probes(self, conn: Conn, tasks: dict[int, TaskRow], taken: Sequence[Message]) -> None:
        answers = [
            answer
            for fact in taken
            if (task := tasks[key_of(fact)[0]]).kind == "probe" and (answer := answer_of_probe(task, fact))
        ]
        if answers:
            await answer_probes(conn, answers)

    def _trace(self, fact: Message, tasks: dict[int, TaskRow]) -> None:
        source = fact.page if isinstance(fact, OF_A_PARSE) else fact
        traceparent: str = source.traceparent  # type: ignore[attr-defined]
        if tracing.is_sampled(traceparent):
            task = tasks[key_of(fact)[0]]
            with tracing.use(traceparent):
                log.info(
                    "task_settled",
                    task_id=task.task_id,
                    attempt=task.attempt,
                    fact=fact.DESCRIPTOR.name,
                    status=task.status.value,
                )
