"""Links become tasks: in the scope of their batch, not known yet, as many as the batch may take."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import asyncpg
import structlog

from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinksDiscovered, PageParsed
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.scheduler.canonical import BadUrl, Canonical, canonical
from limpet.scheduler.hosts import known_hosts
from limpet.scheduler.metrics import LINKS_LEFT_OUT, TASKS_ADDED
from limpet.scheduler.new_task import NewTask
from limpet.scheduler.numbering import is_sure, readings
from limpet.scheduler.outcome import GUESSED, TaskRow
from limpet.scheduler.paginate import Evidence, ListPage, Told, leads_on, paginate
from limpet.scheduler.runs.collect import collect_links
from limpet.scheduler.scope import PASSING, Judged, Scope, is_duplicate, judge, read_scope
from limpet.scheduler.seen import Seen
from limpet.scheduler.sitemaps import sitemap_task
from limpet.scheduler.store.batch_rejections import add_rejections
from limpet.scheduler.store.batch_shapes import count_shapes
from limpet.scheduler.store.batches import count_open, get_terms, lock_batches
from limpet.scheduler.store.domains import lock_domain_ids, wake_domains
from limpet.scheduler.store.link_parts import add_link_part
from limpet.scheduler.store.tasks import add_tasks, find_tasks, lock_tasks, read_clock
from limpet.scheduler.submit import admit

log = structlog.get_logger()

MOST_BATCHES = 10_000
FORGET_SECONDS = 600.0
SITEMAP = LinkKind.LINK_KIND_SITEMAP
NOTHING_TOLD = Told()


@dataclass(frozen=True)
class Found:
    """The links of one page, and what decides about them."""

    domain_id: int
    batch_id: int
    links: Sequence[Link]
    depth: int = 0
    url: str = ""
    canonical_url: str = ""
    # Who asked for the page: what a sitemap lists is as far from the start as the sitemap.
    kind: str = "page"
    # Where the page is one of a list.
    list_page: ListPage | None = None


def found_of(task: TaskRow, parsed: PageParsed, *, list_url: str | None, evidence: Evidence = "sure") -> Found:
    """What a parsed page leads to; with a `list_url` it is a page of a list."""
    batch_id = task.batch_id or 0
    return Found(
        domain_id=task.domain_id,
        batch_id=batch_id,
        links=parsed.links,
        depth=task.depth,
        url=parsed.page.url,
        canonical_url=parsed.canonical_url,
        kind=task.kind,
        list_page=None
        if list_url is None
        else ListPage(
            batch_id=batch_id,
            domain_id=task.domain_id,
            url=list_url,
            depth=task.depth,
            links=parsed.links,
            fingerprint=parsed.fingerprint,
            says_empty=parsed.says_empty,
            evidence=evidence,
        ),
    )


def missing_of(task: TaskRow, *, list_url: str) -> Found:
    """A page of a list that was guessed, and is not there."""
    batch_id = task.batch_id or 0
    page = ListPage(batch_id, task.domain_id, list_url, task.depth, http_status=task.http_status or 404)
    return Found(task.domain_id, batch_id, (), list_page=page)


@dataclass(frozen=True)
class Terms:
    """What never changes about a batch."""

    follow: bool
    priority: int
    scope: Scope


@dataclass
class Wishes:
    """What the pages of one batch want, before anybody asked the database."""

    tasks: dict[bytes, NewTask] = field(default_factory=dict)
    guesses: dict[bytes, NewTask] = field(default_factory=dict)
    sitemaps: dict[bytes, NewTask] = field(default_factory=dict)
    # Of hosts other than the page's: by host.
    elsewhere: dict[str, dict[bytes, NewTask]] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    shapes: dict[bytes, tuple[str, str, int]] = field(default_factory=dict)
    looked_at: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def add(self, task: NewTask, judged: Judged, scope: Scope, *, own_domain: str, origin: int) -> None:
        target = judged.target
        if target is None:
            return
        if judged.trap is not None and judged.trap.shape is not None:
            self.shapes[task.digest] = (judged.trap.shape, judged.trap.reason, scope.most_of(judged.trap))
        if target.domain == own_domain:
            self.tasks.setdefault(task.digest, task)
        else:
            self.elsewhere.setdefault(target.domain, {}).setdefault(task.digest, task)
            self.origins.setdefault(target.domain, origin)


Looked = list[tuple[tuple[int, int], str]]


@dataclass
class Discover:
    pool: Pool
    # Links that need no second look: most links of a site lead to pages that are known.
    _seen: Seen = field(default_factory=Seen)
    _told: Seen = field(default_factory=lambda: Seen(most=100_000))
    _terms: dict[int, Terms] = field(default_factory=dict)
    _hopeless: set[tuple[int, str]] = field(default_factory=set)
    _hopeless_since: float = 0.0
    _left_out: Counter[tuple[int, str]] = field(default_factory=Counter)
    _examples: dict[tuple[int, str], str] = field(default_factory=dict)

    async def run(self) -> None:
        """A part: tells once a second what was left out."""
        while True:
            await asyncio.sleep(1.0)
            try:
                await self.flush()
            except (*LOST, asyncpg.PostgresError) as error:
                log.warning("rejections_not_written", error=repr(error))

    async def flush(self) -> None:
        counted, self._left_out = self._left_out, Counter()
        if counted:
            async with self.pool.acquire() as conn:
                await add_rejections(conn, {key: (count, self._examples[key]) for key, count in counted.items()})

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
            looked_at: Looked = []
            if task.batch_id is not None:
                found = Found(task.domain_id, task.batch_id, part.links, depth=task.depth, kind=task.kind)
                looked_at = await self.add(conn, [found])
            if task.kind == "list":
                await collect_links(conn, task, part.links)
            await add_link_part(conn, task_id=part.task_id, attempt=part.attempt, part=part.part)
        self.remember(looked_at)

    async def add(self, conn: Conn, found: Sequence[Found]) -> Looked:
        """Inside the caller's transaction: the page's task and its links are settled together, so no link is lost."""
        if not found:
            return []
        await self._learn_terms(conn, {page.batch_id for page in found})
        found = [page for page in found if self._terms[page.batch_id].follow]
        if not found:
            return []
        domains = await lock_domain_ids(conn, sorted({page.domain_id for page in found}))
        wishes: dict[int, Wishes] = {}
        today = datetime.now(UTC).date()
        lists = [
            page.list_page for page in found if page.list_page is not None and self._terms[page.batch_id].scope.paginate
        ]
        told = await paginate(conn, lists) if lists else NOTHING_TOLD
        for page in found:
            one = wishes.setdefault(page.batch_id, Wishes())
            past_end = page.list_page is not None and (page.batch_id, page.list_page.url) in told.past_end
            self._judge_links(page, domains[page.domain_id], one, today=today, past_end=past_end)
        for wanted in told.wanted:
            own = wanted.page
            self._judge_guess(wanted.url, own, domains[own.domain_id], wishes[own.batch_id], today=today)
        return await self._take_in(conn, wishes)

    def remember(self, looked_at: Looked) -> None:
        """After the commit: these need no second look."""
        by_key: dict[tuple[int, int], list[str]] = {}
        for key, link in looked_at:
            by_key.setdefault(key, []).append(link)
        for key, links in by_key.items():
            self._seen.add(key, links)

    def _give_up(self, kinds: set[tuple[int, str]]) -> None:
        """For a while: what was learned may be forgotten by a person."""
        now = time.monotonic()
        if len(self._hopeless) > MOST_BATCHES or now - self._hopeless_since > FORGET_SECONDS:
            self._hopeless.clear()
            self._hopeless_since = now
        self._hopeless |= kinds

    async def _learn_terms(self, conn: Conn, batch_ids: Iterable[int]) -> None:
        missing = [batch_id for batch_id in batch_ids if batch_id not in self._terms]
        if not missing:
            return
        if len(self._terms) > MOST_BATCHES:
            self._terms.clear()
        for row in await get_terms(conn, missing):
            self._terms[row["batch_id"]] = Terms(row["follow"], row["priority"], read_scope(row["scope"]))

    def _judge_links(self, page: Found, domain: str, wishes: Wishes, *, today: date, past_end: bool) -> None:
        terms = self._terms[page.batch_id]
        scope, key = terms.scope, (page.batch_id, page.domain_id)
        seen = self._seen.of(key)
        other = self._other_address(page, scope)
        links: Sequence[Link] = page.links
        if other is not None:
            self._leave_out(page.batch_id, "duplicate", page.url)
            links = [Link(url=other)]
        # What a sitemap lists, and what a page says that it is, is no further from the start than itself.
        depth = page.depth + (page.kind == "page" and other is None)
        for link in links:
            url = link.url
            if url in seen:
                continue
            if past_end and page.list_page is not None and leads_on(page.list_page, link):
                self._leave_out(page.batch_id, "list_ended", url)
                continue
            judged = judge(scope, url, host=domain, depth=depth, nofollow=link.nofollow, today=today)
            if judged.reason is not None:
                self._leave_out(page.batch_id, judged.reason, url)
                if judged.reason not in PASSING:
                    self._seen.add(key, [url])
                continue
            wishes.looked_at.append((key, url))
            target = judged.target
            if target is None:
                continue
            if link.kind == SITEMAP:
                if target.domain == domain:
                    task = sitemap_task(page.domain_id, target.url, page.batch_id, depth=depth, priority=terms.priority)
                    wishes.sitemaps[task.digest] = task
                continue
            task = _page_task(page.domain_id, target, terms, depth=depth)
            wishes.add(task, judged, scope, own_domain=domain, origin=page.domain_id)

    def _judge_guess(self, url: str, page: ListPage, domain: str, wishes: Wishes, *, today: date) -> None:
        """A further page of a list is no deeper than the list, and may have nothing: it is another's guess."""
        terms = self._terms[page.batch_id]
        judged = judge(terms.scope, url, host=domain, depth=page.depth, nofollow=False, today=today)
        if judged.reason is not None:
            self._leave_out(page.batch_id, judged.reason, url)
        elif judged.target is not None:
            task = _page_task(page.domain_id, judged.target, terms, depth=page.depth)
            if wishes.tasks.pop(task.digest, None) is None:
                wishes.guesses[task.digest] = task
            else:
                # It is linked as well, so it is there.
                wishes.tasks[task.digest] = task

    def _other_address(self, page: Found, scope: Scope) -> str | None:
        """The address that the page says it is another one of; None where it is itself, or is not believed."""
        if not page.canonical_url or not scope.obey_canonical or (page.list_page is not None and _is_numbered(page)):
            return None
        try:
            named = canonical(page.canonical_url).url
        except BadUrl:
            return None
        return named if page.url and is_duplicate(page.url, named) else None

    def _leave_out(self, batch_id: int, reason: str, url: str, *, count: int = 1) -> None:
        """Counted once for each link."""
        key = (batch_id, hash(reason))
        if url in self._told.of(key):
            return
        self._told.add(key, [url])
        self._left_out[(batch_id, reason)] += count
        self._examples[(batch_id, reason)] = url[:500]
        LINKS_LEFT_OUT.labels(reason).inc(count)

    async def _take_in(self, conn: Conn, wishes: Mapping[int, Wishes]) -> Looked:
        """Into the database: what is new of what is wanted."""
        batches = await lock_batches(
            conn,
            sorted(key for key, one in wishes.items() if one.tasks or one.guesses or one.sitemaps or one.elsewhere),
        )
        looked_at: Looked = [
            entry for batch_id, one in wishes.items() if batch_id not in batches for entry in one.looked_at
        ]
        for batch_id, batch in batches.items():
            one = wishes[batch_id]
            tasks = [*one.tasks.values(), *await self._elsewhere(conn, batch_id, one)]
            if one.shapes:
                tasks = await self._within_shapes(conn, batch_id, one, tasks)
            full = False
            if tasks:
                added = await admit(conn, tasks, batch=batch, created_by="discovery")
                TASKS_ADDED.labels("discovery").inc(len(added.created))
                await wake_domains(conn, added.due)
                full = added.full
                batch = {**batch, "pages": batch["pages"] + len(added.created) + len(added.recrawled)}
            if one.guesses and not full:
                guessed = await admit(conn, list(one.guesses.values()), batch=batch, created_by=GUESSED)
                TASKS_ADDED.labels(GUESSED).inc(len(guessed.created))
                await wake_domains(conn, guessed.due)
            if one.sitemaps:
                rows = await add_tasks(conn, list(one.sitemaps.values()), batch_id=batch_id, created_by="sitemap")
                if rows:
                    await count_open(conn, batch_id, len(rows))
                    await wake_domains(conn, [(row["domain_id"], None, row["priority"]) for row in rows])
            if full:
                reason = "max_bytes" if _is_spent(batch) else "max_pages"
                for _, link in one.looked_at:
                    self._leave_out(batch_id, reason, link)
            else:
                looked_at += one.looked_at
        return looked_at

    async def _elsewhere(self, conn: Conn, batch_id: int, one: Wishes) -> list[NewTask]:
        """Pages of other hosts. Their domains are not locked: they take their place by way of the calendar."""
        if not one.elsewhere:
            return []
        scope = self._terms[batch_id].scope
        ids = await known_hosts(conn, batch_id, one.origins, scope)
        soon = await read_clock(conn) + timedelta(seconds=1)
        tasks = []
        for host, wanted in one.elsewhere.items():
            domain_id = ids.get(host)
            for task in wanted.values():
                if domain_id is None:
                    self._leave_out(batch_id, "unknown_host", task.url)
                else:
                    tasks.append(_moved(task, domain_id, soon))
        return tasks

    async def _within_shapes(self, conn: Conn, batch_id: int, one: Wishes, tasks: list[NewTask]) -> list[NewTask]:
        """Of addresses whose shape may never end, only so many are taken."""
        suspects = [task.digest for task in tasks if task.digest in one.shapes]
        known = await find_tasks(conn, suspects) if suspects else {}
        fresh = [digest for digest in suspects if digest not in known]
        if not fresh:
            return tasks
        totals = await count_shapes(conn, batch_id, Counter(one.shapes[digest][0] for digest in fresh))
        over: Counter[str] = Counter()
        for shape, total in totals.items():
            most = next(entry[2] for entry in one.shapes.values() if entry[0] == shape)
            over[shape] = max(0, total - most)
        refused: set[bytes] = set()
        by_digest = {task.digest: task for task in tasks}
        for digest in reversed(fresh):
            shape, reason, _ = one.shapes[digest]
            if over[shape] > 0:
                over[shape] -= 1
                refused.add(digest)
                self._leave_out(batch_id, reason, by_digest[digest].url)
        return [task for task in tasks if task.digest not in refused]


def _page_task(domain_id: int, target: Canonical, terms: Terms, *, depth: int) -> NewTask:
    return NewTask(
        domain_id, target.url, target.digest, is_recurring=False, depth=min(depth, 32_000), priority=terms.priority
    )


def _moved(task: NewTask, domain_id: int, scheduled_at: datetime) -> NewTask:
    return NewTask(
        domain_id, task.url, task.digest, is_recurring=False, depth=task.depth, priority=task.priority,
        scheduled_at=scheduled_at,
    )  # fmt: skip


def _is_numbered(page: Found) -> bool:
    """A later page of a list that names the first one as itself: many sites do, and each page has entries of its own."""
    return any(map(is_sure, readings(page.url)))


def _is_spent(batch: Mapping[str, object]) -> bool:
    most, had = batch["max_bytes"], batch["bytes"]
    return isinstance(most, int) and isinstance(had, int) and had >= most
