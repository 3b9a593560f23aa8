"""robots.txt is a task like any other, of a kind of its own: asked for when an origin is first met, and again every day."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from limpet.kit.errors import Permanent
from limpet.kit.pg import Conn
from limpet.scheduler.new_task import NewTask
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.politeness import Pace
from limpet.scheduler.robotstxt import ALL_ALLOWED, Rules, read_rules, text_of
from limpet.scheduler.sitemaps import robots_were_read
from limpet.scheduler.store.domains import get_domains
from limpet.scheduler.store.robots import get_robots, robots_task, save_robots, want_robots
from limpet.scheduler.store.tasks import add_tasks

REFRESH = timedelta(hours=24)
# Before every page: no page may be fetched while it is not known.
PRIORITY = 0
Word = Literal["allowed", "forbidden", "unread"]


@dataclass
class RobotsBook:
    """The rules of the domains that this process serves, read from the database when they have changed."""

    _pages: dict[int, tuple[int, dict[str, Rules | None]]] = field(default_factory=dict)
    most: int = 20_000

    async def open(self, conn: Conn, paces: Sequence[Pace]) -> None:
        """Have the rules of these domains at hand."""
        stale = [
            pace.domain_id
            for pace in paces
            if pace.obey_robots and self._pages.get(pace.domain_id, (-1,))[0] != pace.robots_version
        ]
        if not stale:
            return
        found: dict[int, dict[str, Rules | None]] = {domain_id: {} for domain_id in stale}
        for row in await get_robots(conn, stale):
            known = {"read": read_rules(row.content), "absent": ALL_ALLOWED}.get(row.state)
            found[row.domain_id][row.scheme] = known
        versions = {pace.domain_id: pace.robots_version for pace in paces}
        while len(self._pages) > self.most:
            self._pages.pop(next(iter(self._pages)))
        self._pages.update({domain_id: (versions[domain_id], rules) for domain_id, rules in found.items()})

    def word(self, pace: Pace, url: str) -> Word:
        """What the origin of this URL says about it."""
        if not pace.obey_robots:
            return "allowed"
        rules = self._pages[pace.domain_id][1].get(scheme_of(url))
        if rules is None:
            return "unread"
        return "allowed" if rules.allow(url, agent=pace.user_agent) else "forbidden"


def scheme_of(url: str) -> str:
    return url.partition(":")[0]


def robots_identity(domain: str, scheme: str) -> tuple[str, bytes]:
    """The address of an origin's robots.txt, and the identity of the task that reads it.

    It is not the identity of the page of this address: that is a task of its own, should anybody want it.
    """
    url = f"{scheme}://{domain}/robots.txt"
    return url, hashlib.sha256(f"robots {url}".encode()).digest()


async def ask_for_robots(conn: Conn, origins: Sequence[tuple[Pace, str]]) -> None:
    """A task for the robots.txt of each origin: (domain, scheme). Domains are locked by the caller."""
    await want_robots(conn, [(pace.domain_id, scheme) for pace, scheme in origins])
    tasks = []
    for pace, scheme in origins:
        url, digest = robots_identity(pace.name, scheme)
        tasks.append(NewTask(pace.domain_id, url, digest, priority=PRIORITY, kind="robots", crawl_frequency=REFRESH))
    if tasks:
        await add_tasks(conn, tasks, batch_id=None, created_by="robots")


async def keep_robots(conn: Conn, task: TaskRow, *, body: bytes | Permanent | None) -> None:
    """What came of asking: the rules, that there are none, or that the origin cannot say now. The domain is locked."""
    scheme, agent = await robots_task(conn, task.task_id)
    content, note = "", task.note or task.error
    if isinstance(body, bytes):
        content = text_of(body)
    elif isinstance(body, Permanent):
        note = f"its body is not in the page store: {body}"[:200]
    rules = read_rules(content)
    await save_robots(
        conn,
        (task.domain_id, scheme),
        state=task.robots or "unreachable",
        content=content,
        sitemaps=rules.sitemaps,
        delay=rules.delay(agent),
        note=note,
    )
    if rules.sitemaps:
        await robots_were_read(conn, (await get_domains(conn, [task.domain_id]))[0])
