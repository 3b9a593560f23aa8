"""Sitemaps are tasks of a kind of their own: what they list is followed, and one that is missing is nobody's failure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from limpet.kit.pg import Conn, Record
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.new_task import NewTask
from limpet.scheduler.store.batches import count_open, lock_batches, reading_sitemaps
from limpet.scheduler.store.domains import wake_domains
from limpet.scheduler.store.robots import get_sitemaps
from limpet.scheduler.store.tasks import add_tasks

PARSER = "sitemap"
# Where one is where robots.txt names none.
USUAL = "/sitemap.xml"
MOST = 100


def sitemap_task(domain_id: int, url: str, batch_id: int, *, depth: int, priority: int) -> NewTask:
    """Every batch reads its own: what is new to one may be known to another."""
    digest = hashlib.sha256(f"sitemap {batch_id} {url}".encode()).digest()
    return NewTask(
        domain_id, url, digest, priority=priority, kind="sitemap", parser_name=PARSER, is_recurring=False,
        depth=min(depth, 32_000),
    )  # fmt: skip


def sitemap_urls(domain: str, base_url: str, named: Iterable[str]) -> list[str]:
    """Those that robots.txt names, of this host, and the usual one."""
    found: dict[str, None] = {}
    for text in (*named, base_url.rstrip("/") + USUAL):
        try:
            target = canonical(text)
        except BadUrl:
            continue
        if target.domain == domain:
            found[target.url] = None
    return list(found)[:MOST]


async def ask_for_sitemaps(conn: Conn, batch: Record, domains: Sequence[Record]) -> int:
    """Tasks for the sitemaps of these domains that the batch has not asked for. Domains and batch are locked by the caller."""
    named = await get_sitemaps(conn, [domain["domain_id"] for domain in domains])
    tasks = [
        sitemap_task(domain["domain_id"], url, batch["batch_id"], depth=0, priority=batch["priority"])
        for domain in domains
        for url in sitemap_urls(domain["name"], domain["base_url"], named.get(domain["domain_id"], ()))
    ]
    rows = await add_tasks(conn, tasks, batch_id=batch["batch_id"], created_by=PARSER) if tasks else []
    if rows:
        await count_open(conn, batch["batch_id"], len(rows))
        await wake_domains(conn, [(row["domain_id"], None, row["priority"]) for row in rows])
    return len(rows)


async def robots_were_read(conn: Conn, domain: Record) -> None:
    """What robots.txt names goes to the batches that read sitemaps and are under way. The domain is locked by the caller."""
    waiting = await reading_sitemaps(conn, domain["domain_id"])
    for batch in (await lock_batches(conn, waiting)).values() if waiting else ():
        await ask_for_sitemaps(conn, batch, [domain])
