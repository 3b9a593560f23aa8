"""Why a task stands where it stands: gather the facts at one moment, without locking anything, and let the rules say."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from limpet.kit.pg import Conn, Pool
from limpet.scheduler.canonical import Canonical
from limpet.scheduler.capacity import Capacity
from limpet.scheduler.facts import MOST_AHEAD, Explanation, Facts, RobotsFacts
from limpet.scheduler.politeness import Pace
from limpet.scheduler.reasons import reason
from limpet.scheduler.robots import RobotsBook, robots_identity, scheme_of
from limpet.scheduler.scope import judge, read_scope
from limpet.scheduler.store.batches import get_batch
from limpet.scheduler.store.explain import count_ahead, get_facts, has_tasks_on, hosts_of, robots_tasks
from limpet.scheduler.store.paces import read_pace
from limpet.scheduler.store.permits import count_permits
from limpet.scheduler.store.robots import get_robots
from limpet.scheduler.store.tasks import find_tasks

UNREAD = ("unread", "unreachable")


@dataclass(frozen=True)
class BatchSays:
    """What a batch would do with a link to a URL."""

    name: str
    known: bool
    follows: bool = False
    # The address under which it would know the page.
    url: str = ""
    # None where it would follow it.
    reason: str | None = None


@dataclass(frozen=True)
class Stranger:
    """A URL that is no task: what would happen to it. Without a domain nobody can say."""

    url: str
    domain: str
    domain_known: bool
    robots: str | None
    batch: BatchSays | None = None


@dataclass(frozen=True)
class Explain:
    pool: Pool
    # Seconds that an order is sent ahead, and that it may wait for a fetcher without a delay.
    lead: float = 0.4
    patience: float = 15.0
    # Who listens for fetchers knows how many there are.
    capacity: Capacity | None = None

    async def task(self, task_id: int) -> tuple[Facts, Explanation] | None:
        """None when there is no such task."""
        async with self.pool.acquire() as conn, conn.transaction(isolation="repeatable_read", readonly=True):
            facts = await self._gather(conn, task_id)
        return (facts, reason(facts)) if facts is not None else None

    async def url(self, target: Canonical, *, batch: str | None = None) -> tuple[Facts, Explanation] | Stranger:
        async with self.pool.acquire() as conn, conn.transaction(isolation="repeatable_read", readonly=True):
            found = (await find_tasks(conn, [target.digest])).get(target.digest)
            facts = await self._gather(conn, found) if found is not None else None
            if facts is None:
                says = await _batch_says(conn, target, batch) if batch is not None else None
                return replace(await _stranger(conn, target), batch=says)
        return facts, reason(facts)

    async def _gather(self, conn: Conn, task_id: int) -> Facts | None:
        task = await get_facts(conn, task_id)
        pace = await read_pace(conn, task.domain) if task is not None else None
        if task is None or pace is None:
            return None
        origins = await _origins(conn, pace)
        own, unread = scheme_of(task.goes_to), [one for one in origins.values() if one.state in UNREAD]
        return Facts(
            task=task,
            pace=pace,
            word=await _word(conn, pace, task.goes_to),
            robots=origins.get(own),
            missing=_missing(pace, origins, scheme=own) if own not in origins or unread else None,
            ahead=await count_ahead(conn, task_id, most=MOST_AHEAD + 1) if task.in_queue else 0,
            lead=self.lead,
            patience=self.patience,
            permits_out=await count_permits(conn),
            window=self.capacity.window(time.monotonic()) if self.capacity is not None else None,
            fetchers=self.capacity.fetchers if self.capacity is not None else None,
        )


async def _stranger(conn: Conn, target: Canonical) -> Stranger:
    pace = await read_pace(conn, target.domain)
    word = await _word(conn, pace, target.url) if pace is not None else None
    return Stranger(target.url, target.domain, domain_known=pace is not None, robots=word)


async def _batch_says(conn: Conn, target: Canonical, name: str) -> BatchSays:
    """As from a page of the same host, or where the batch never was there, of a host where it was."""
    batch = await get_batch(conn, name)
    if batch is None:
        return BatchSays(name, known=False)
    scope, host = read_scope(batch["scope"]), target.domain
    if not await has_tasks_on(conn, batch["batch_id"], host):
        hosts = await hosts_of(conn, batch["batch_id"])
        host = next((own for own in hosts if scope.takes_host(target.domain, of=own)), hosts[0] if hosts else "")
    judged = judge(scope, target.url, host=host, depth=1, nofollow=False, today=datetime.now(UTC).date())
    url = judged.target.url if judged.target is not None else target.url
    return BatchSays(name, known=True, follows=batch["follow"], url=url, reason=judged.reason)


async def _word(conn: Conn, pace: Pace, url: str) -> str:
    book = RobotsBook()
    await book.open(conn, [pace])
    return book.word(pace, url)


async def _origins(conn: Conn, pace: Pace) -> dict[str, RobotsFacts]:
    """What is known of each robots.txt of the domain, by scheme, and how far its reader has got."""
    rows = await get_robots(conn, [pace.domain_id]) if pace.obey_robots else []
    readers = await robots_tasks(conn, [robots_identity(pace.name, row.scheme)[1] for row in rows])
    found = {}
    for row in rows:
        url = robots_identity(pace.name, row.scheme)[0]
        reader = readers.get(url)
        found[row.scheme] = RobotsFacts(
            url=url,
            state=row.state,
            read_at=row.fetched_at,
            note=row.note,
            asked_since=reader.created_at if reader else None,
            next_try_at=reader.scheduled_at if reader and reader.status == "pending" else None,
            tries=reader.fetch_errors if reader else 0,
        )
    return found


def _missing(pace: Pace, origins: dict[str, RobotsFacts], *, scheme: str) -> RobotsFacts:
    """The robots.txt that all pages of the domain wait for; its own origin's first."""
    unread = {name: one for name, one in origins.items() if one.state in UNREAD}
    if scheme in unread:
        return unread[scheme]
    if unread:
        return next(iter(unread.values()))
    return RobotsFacts(robots_identity(pace.name, scheme)[0], "unread", None, None)
