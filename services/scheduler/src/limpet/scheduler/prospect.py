"""Sitemaps and archives of the domains that opted in: once a day, and when little is left to do."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg
import structlog

from limpet.kit.pg import COLLIDED, LOST, Conn, Pool, Record
from limpet.scheduler.archives import Said, archive_candidates, judge_probes
from limpet.scheduler.canonical import canonical
from limpet.scheduler.metrics import PROBES, TASKS_ADDED
from limpet.scheduler.new_task import NewTask
from limpet.scheduler.sitemaps import ask_for_sitemaps
from limpet.scheduler.store import probes
from limpet.scheduler.store.batches import add_batch, count_open, get_batch, lock_batches, reopen_batches
from limpet.scheduler.store.discovery import domains_to_look_at, ended_sitemaps, good_urls, looked_at
from limpet.scheduler.store.domains import get_domains, lock_domain_ids, wake_domains
from limpet.scheduler.store.tasks import add_tasks, find_tasks, recrawl_tasks
from limpet.scheduler.submit import admit

log = structlog.get_logger()

# Tasks of at most this number are what people asked for.
HIGH_PRIORITY = 5
# After everything that people asked for.
PRIORITY = 8
EVERY = timedelta(days=1)
REST = timedelta(hours=1)
DOMAINS = 10
EVIDENCE = 2000
# An archive leads to months, lists and then to its pages.
SCOPE = '{"max_depth": 4}'
PARSER = "generic"


@dataclass(frozen=True)
class Prospect:
    pool: Pool
    every: float
    freed: Callable[[], None]

    async def run(self) -> None:
        """A part."""
        while True:
            await asyncio.sleep(self.every)
            try:
                if await self.round():
                    self.freed()
            except (*LOST, *COLLIDED, asyncpg.PostgresError) as error:
                log.warning("prospect_failed", error=repr(error))

    async def round(self) -> int:
        """How many tasks that brought."""
        return await self.judge() + await self.look()

    async def look(self) -> int:
        """Ask the domains whose turn it is."""
        added = 0
        async with self.pool.acquire() as conn, conn.transaction():
            turn = await domains_to_look_at(conn, every=EVERY, rest=REST, high=HIGH_PRIORITY, limit=DOMAINS)
            for domain in turn:
                batch = await discovery_batch(conn, domain["name"])
                added += await self._ask(conn, domain, batch)
                await looked_at(conn, domain["domain_id"])
        return added

    async def _ask(self, conn: Conn, domain: Record, batch: Record) -> int:
        added = await ask_for_sitemaps(conn, batch, [domain])
        added += await _read_again(conn, batch)
        if domain["discover"] == "archives":
            added += await _probe(conn, domain, batch)
        TASKS_ADDED.labels("prospect").inc(added)
        return added

    async def judge(self) -> int:
        """What was found at the addresses that were probed: pages of their own, or a site that says yes to everything."""
        added = 0
        async with self.pool.acquire() as conn, conn.transaction():
            rows = await probes.probes_to_judge(conn, limit=DOMAINS)
            by_domain: dict[int, list[Record]] = defaultdict(list)
            for row in rows:
                by_domain[row["domain_id"]].append(row)
            await lock_domain_ids(conn, sorted(by_domain))
            for domain in await get_domains(conn, sorted(by_domain)):
                added += await _judge(conn, domain, by_domain[domain["domain_id"]])
        return added


async def discovery_batch(conn: Conn, domain: str) -> Record:
    """What is found belongs to a batch like any other, which people can look at, pause and cancel."""
    name = f"discovery:{domain}"
    added = await add_batch(conn, name=name, follow=True, recrawl=False, max_pages=None, priority=PRIORITY, scope=SCOPE)
    row = added or await get_batch(conn, name)
    if row is None:
        raise AssertionError("a batch that could not be added is there")
    return (await lock_batches(conn, [row["batch_id"]]))[row["batch_id"]]


async def _read_again(conn: Conn, batch: Record) -> int:
    """Sitemaps that were read before: what is new in them is followed, the rest is known."""
    ended = await ended_sitemaps(conn, batch["batch_id"], every=REST)
    rows = await recrawl_tasks(conn, [(task_id, None, None) for task_id in ended], event="recrawled", actor="prospect")
    await reopen_batches(conn, [batch["batch_id"]] * len(rows))
    await wake_domains(conn, [(row["domain_id"], row["group_key"], row["priority"]) for row in rows if row["is_due"]])
    return len(rows)


async def _probe(conn: Conn, domain: Record, batch: Record) -> int:
    """Ask for what may be an archive and was never asked for, and for a page that cannot exist."""
    urls = await good_urls(conn, domain["domain_id"], limit=EVIDENCE)
    paths = archive_candidates(urls, today=datetime.now(UTC).date())
    base = domain["base_url"].rstrip("/")
    targets = [canonical(base + path) for path in paths]
    known = await find_tasks(conn, [target.digest for target in targets])
    wanted = [canary_url(base)] + [target.url for target in targets if target.digest not in known]
    tasks = [_probe_task(domain["domain_id"], url) for url in wanted]
    rows = await add_tasks(conn, tasks, batch_id=batch["batch_id"], created_by="prospect")
    if not rows:
        return 0
    by_digest = {task.digest: task.url for task in tasks}
    await probes.add_probes(
        conn,
        [
            (row["task_id"], domain["domain_id"], url, url == wanted[0])
            for row in rows
            if (url := by_digest[row["url_hash"]])
        ],
    )
    await count_open(conn, batch["batch_id"], len(rows))
    await wake_domains(conn, [(row["domain_id"], None, row["priority"]) for row in rows])
    return len(rows)


def canary_url(base: str) -> str:
    """No site has it, and it is the same each time: nobody need remember which it was."""
    token = hashlib.sha256(base.encode()).hexdigest()[:12]
    return canonical(f"{base}/no-such-page-{token}/").url


def _probe_task(domain_id: int, url: str) -> NewTask:
    digest = hashlib.sha256(f"probe {url}".encode()).digest()
    return NewTask(
        domain_id, url, digest, priority=PRIORITY, kind="probe", parser_name=PARSER, is_recurring=False, max_retries=1
    )


async def _judge(conn: Conn, domain: Record, rows: Sequence[Record]) -> int:
    canary = next((row for row in rows if row["is_canary"]), None)
    if canary is not None and canary["state"] == "asked":
        # Nobody knows yet what the site says of pages that are not there.
        return 0
    missing = _said(canary) if canary is not None and canary["state"] == "answered" else None
    candidates = {row["task_id"]: _said(row) for row in rows if not row["is_canary"]}
    states = judge_probes(candidates, missing)
    judged = set(await probes.judge_probes(conn, states))
    for task_id in judged:
        PROBES.labels(states[task_id]).inc()
    found = [canonical(row["url"]) for row in rows if row["task_id"] in judged and states[row["task_id"]] == "found"]
    if not found:
        return 0
    batch = await discovery_batch(conn, domain["name"])
    tasks = [
        NewTask(domain["domain_id"], target.url, target.digest, priority=PRIORITY, is_recurring=False)
        for target in found
    ]
    admitted = await admit(conn, tasks, batch=batch, created_by="prospect")
    await wake_domains(conn, admitted.due)
    TASKS_ADDED.labels("prospect").inc(len(admitted.created))
    return len(admitted.created)


def _said(row: Record) -> Said:
    return Said(row["fingerprint"] or b"", (row["simhash"] or 0) & (1 << 64) - 1, row["says_empty"])
