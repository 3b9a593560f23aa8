"""Links become tasks: of the same domain, not known yet, as many as the batch may take."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from limpet.contracts.events.v1.parse_pb2 import LinksDiscovered
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, Conn, Pool
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.metrics import TASKS_ADDED
from limpet.scheduler.runs.collect import collect_links
from limpet.scheduler.store.batches import lock_batches
from limpet.scheduler.store.domains import lock_domain_ids, wake_domains
from limpet.scheduler.store.link_parts import add_link_part
from limpet.scheduler.store.tasks import lock_tasks
from limpet.scheduler.submit import NewTask, admit

KNOWN_SIZE = 500_000


@dataclass(frozen=True)
class Found:
    """The links of one page."""

    domain_id: int
    batch_id: int | None
    urls: Sequence[str]


@dataclass
class Discover:
    pool: Pool
    # URLs that are tasks of a batch already: most links of a site lead to them, and the database need not be asked.
    _known: OrderedDict[tuple[int, bytes], None] = field(default_factory=OrderedDict)

    async def on_links_discovered(self, delivery: Delivery) -> None:
        for part in delivery.records(LinksDiscovered):
            try:
                await self._take(part)
            except COLLIDED as error:
                raise Retryable(f"adding links collided: {error}") from error

    async def _take(self, part: LinksDiscovered) -> None:
        async with self.pool.acquire() as conn, conn.transaction():
            task = (await lock_tasks(conn, [part.task_id])).get(part.task_id)
            if task is None or not task.is_current(part.attempt):
                return
            found = [Found(task.domain_id, task.batch_id, [link.url for link in part.links])]
            admitted = await self.add(conn, found) if task.batch_id is not None else []
            if task.kind == "list":
                await collect_links(conn, task, part.links)
            await add_link_part(conn, task_id=part.task_id, attempt=part.attempt, part=part.part)
        self.remember(admitted)

    async def add(self, conn: Conn, found: Sequence[Found]) -> list[tuple[int, bytes]]:
        """Inside the caller's transaction: the page's task and its links are settled together, so no link is lost."""
        if not found:
            return []
        domains = await lock_domain_ids(conn, sorted({page.domain_id for page in found}))
        wanted: dict[int, dict[bytes, NewTask]] = {}
        for page in found:
            if page.batch_id is not None:
                wanted.setdefault(page.batch_id, {}).update(self._news(page, domains[page.domain_id]))
        batches = await lock_batches(conn, sorted(batch_id for batch_id, tasks in wanted.items() if tasks))
        looked_at: list[tuple[int, bytes]] = []
        for batch_id, batch in batches.items():
            if not batch["follow"]:
                continue
            tasks = list(wanted[batch_id].values())
            added = await admit(conn, tasks, batch=batch, created_by="discovery")
            TASKS_ADDED.labels("discovery").inc(len(added.created))
            await wake_domains(conn, added.due)
            if not added.full:
                looked_at += [(batch_id, task.digest) for task in tasks]
        return looked_at

    def remember(self, admitted: Iterable[tuple[int, bytes]]) -> None:
        """After the commit: these need no second look."""
        for key in admitted:
            self._known[key] = None
        while len(self._known) > KNOWN_SIZE:
            self._known.popitem(last=False)

    def _news(self, page: Found, domain: str) -> dict[bytes, NewTask]:
        news: dict[bytes, NewTask] = {}
        for url in page.urls:
            try:
                target = canonical(url)
            except BadUrl:
                continue
            if target.domain == domain and (page.batch_id, target.digest) not in self._known:
                news[target.digest] = NewTask(page.domain_id, target.url, target.digest, is_recurring=False)
        return news
