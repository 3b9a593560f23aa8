"""A site told in Python, crawled through the scheduler's own flow on a real database: grant, answer, settle, until nothing is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any

from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel, PageParsed
from limpet.kit.pg import Pool
from limpet.scheduler.dispatch import KINDS
from limpet.scheduler.settle import Settle
from limpet.scheduler.store.batches import add_batch
from limpet.scheduler.store.permits import Permit
from limpet.scheduler.submit import submit
from tests.support.scheduling import come_due, grant, make_settle

HOST = "shop.test"
ITEM, PAGINATION, SITEMAP = LinkKind.LINK_KIND_ITEM, LinkKind.LINK_KIND_PAGINATION, LinkKind.LINK_KIND_SITEMAP


def link(url: str, **told: Any) -> Link:
    """Of the shop, unless it says otherwise."""
    return Link(url=url if "://" in url else f"http://{HOST}{url}", **told)


@dataclass(frozen=True)
class Told:
    """What a site says at one address."""

    links: Sequence[Link] = ()
    status: int = 200
    text: str | None = None
    page_type: str = "page"
    says_empty: bool = False
    canonical: str = ""
    size: int = 1000
    simhash: int = 0
    next_url: str = ""
    # A robots.txt.
    body: str = ""


MISSING = Told(status=404)
Site = Callable[[str], Told]


@dataclass
class Crawl:
    """What was asked for, in the order in which it was."""

    pool: Pool
    settle: Settle
    asked: list[Permit] = field(default_factory=list)

    def paths(self, kind: str = "page", host: str = HOST) -> list[str]:
        return [one.url.removeprefix(f"http://{host}") for one in self.asked if one.kind == kind]

    async def left_out(self) -> dict[str, int]:
        await self.settle.discover.flush()
        rows = await self.pool.fetch("SELECT reason, links FROM batch_rejections")
        return {row["reason"]: row["links"] for row in rows}

    async def go(self, site: Site, *, most: int = 2000) -> Crawl:
        """Until nothing is due; what waits in the calendar comes at once."""
        while True:
            await come_due(self.pool)
            # The first round may only find that a robots.txt has to be read.
            permits = await grant(self.pool) or await grant(self.pool)
            if not permits:
                return self
            self.asked += permits
            assert len(self.asked) <= most, f"still going on: {self.paths()[-20:]}"
            for permit in permits:
                told = site(permit.url.removeprefix(f"http://{HOST}"))
                self.settle.bodies[permit.url] = told.body.encode()  # type: ignore[index]
                await self.settle.settle(facts(permit, told))


def facts(permit: Permit, told: Told) -> list[Message]:
    key: dict[str, Any] = {"task_id": permit.task_id, "attempt": permit.attempt, "http_status": told.status}
    if told.status == 403:
        return [PageRejected(**key, kind=RejectKind.REJECT_KIND_BLOCKED, reason="status 403")]
    if told.status >= 400:
        return [FetchFailed(**key, kind=FailureKind.FAILURE_KIND_CLIENT_ERROR, error=f"status {told.status}")]
    fetched = PageFetched(
        **key,
        url=permit.url,
        body_key=permit.url,
        kind=KINDS[permit.kind],
        follow=permit.follow,
        size_bytes=told.size,
    )
    if permit.kind == "robots":
        return [fetched]
    links = list(told.links)
    if told.next_url:
        links.append(link(told.next_url, rel=LinkRel.LINK_REL_NEXT))
    text = told.text if told.text is not None else " ".join([permit.url, *(one.url for one in links)])
    parsed = PageParsed(
        page=fetched,
        links=links,
        page_type=told.page_type,
        says_empty=told.says_empty,
        canonical_url=told.canonical,
        fingerprint=sha256(text.encode()).digest()[:8],
        simhash=told.simhash,
    )
    return [fetched, parsed]


async def begin_crawl(pool: Pool, *starts: str, batch: str = "b", **settings: Any) -> Crawl:
    """A batch that follows, with its first pages. The domains are made by the caller."""
    async with pool.acquire() as conn:
        values = {"recrawl": False, "max_pages": None, **settings}
        assert await add_batch(conn, name=batch, follow=True, **values) is not None
    wishes = [{"url": link(start).url, "is_recurring": False} for start in starts or ("/",)]
    result = await submit(pool, wishes, batch=batch)
    assert not result.refused
    return Crawl(pool, make_settle(pool))


def chain(*paths: str) -> Site:
    """Pages that each link to the next one."""
    following = dict(pairwise(paths))

    def site(path: str) -> Told:
        if path not in paths:
            return MISSING
        return Told([link(following[path])] if path in following else [])

    return site
