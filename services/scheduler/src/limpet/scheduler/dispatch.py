"""Permits for due tasks, committed first, announced after: the permit is the outbox."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
import structlog

from limpet.contracts.events.v1.fetch_pb2 import FetchRequested, OrderKind, ProxyPolicy
from limpet.kit import tracing
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.errors import Retryable
from limpet.kit.pg import LOST, Pool
from limpet.scheduler.capacity import Capacity
from limpet.scheduler.grant import Habit, Terms, grant
from limpet.scheduler.metrics import DISPATCH_SECONDS, LAST_ROUND, ORDERS_SENT
from limpet.scheduler.robots import RobotsBook
from limpet.scheduler.sampling import Sampler
from limpet.scheduler.store.permits import Permit

log = structlog.get_logger()

POLICIES = {
    "none": ProxyPolicy.PROXY_POLICY_NONE,
    "preferred": ProxyPolicy.PROXY_POLICY_PREFERRED,
    "required": ProxyPolicy.PROXY_POLICY_REQUIRED,
}
# A list page of a run is fetched, judged and parsed as any page.
KINDS = {
    "page": OrderKind.ORDER_KIND_PAGE,
    "list": OrderKind.ORDER_KIND_PAGE,
    "robots": OrderKind.ORDER_KIND_ROBOTS,
    "sitemap": OrderKind.ORDER_KIND_SITEMAP,
    "probe": OrderKind.ORDER_KIND_PROBE,
}
# Priorities 1 and 2 travel on a queue of their own.
LAST_HIGH_PRIORITY = 2
# A message for each order would cost more than claiming it. The order of a slow page delays nobody: each has its own slot.
MOST_TOGETHER = 8
# Well below the lead of an order, so that no slot is missed for it.
LONGEST_PAUSE = 0.05


@dataclass
class Dispatch:
    pool: Pool
    bus: Bus
    terms: Terms
    tick: float
    # The part of the time that rounds may take while there is work.
    share: float
    capacity: Capacity
    sampler: Sampler
    _book: RobotsBook = field(default_factory=RobotsBook)
    _habit: Habit = field(default_factory=Habit)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: set[asyncio.Task[None]] = field(default_factory=set)

    def wake(self) -> None:
        """Something became due, or room became free."""
        self._wake.set()

    async def run(self) -> None:
        """A part: a round whenever there may be something to grant, at the latest every tick."""
        while True:
            granted = 0
            started = time.monotonic()
            try:
                granted = await self.round()
            except (*LOST, asyncpg.PostgresError, Retryable) as error:
                log.warning("dispatch_failed", error=repr(error))
                await asyncio.sleep(0.5)
            if granted:
                # Rounds are dear and permits in them cheap: the dearer they get, the more tasks one should find.
                took = time.monotonic() - started
                await asyncio.sleep(min(LONGEST_PAUSE, took / self.share - took))
            else:
                try:
                    async with asyncio.timeout(self.tick):
                        await self._wake.wait()
                except TimeoutError:
                    pass
            self._wake.clear()

    async def round(self) -> int:
        """Grant and announce once. Returns how many permits were granted."""
        started = time.monotonic()
        async with self.pool.acquire() as conn, conn.transaction():
            window = self.capacity.window(time.monotonic())
            permits = await grant(conn, self.terms, window=window, book=self._book, habit=self._habit)
        LAST_ROUND.set_to_current_time()
        if permits:
            DISPATCH_SECONDS.observe(time.monotonic() - started)
            task = asyncio.create_task(self._announce(permits))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return len(permits)

    async def _announce(self, permits: list[Permit]) -> None:
        """What cannot be announced comes back when its permit expires."""
        messages = together(permits, fetchers=self.capacity.fetchers)
        ends = await asyncio.gather(*(self._send(queue, some) for queue, some in messages), return_exceptions=True)
        lost = sum(len(some) for (_, some), end in zip(messages, ends, strict=True) if isinstance(end, BaseException))
        ORDERS_SENT.inc(len(permits) - lost)
        if lost:
            error = next(end for end in ends if isinstance(end, BaseException))
            log.warning("orders_not_sent", count=lost, error=repr(error))

    async def _send(self, queue: str, permits: list[Permit]) -> None:
        orders = [self._order(permit) for permit in permits]
        await self.bus.publish_together(
            orders, key=f"fetch-requested:{permits[0].task_id}:{permits[0].attempt}", suffix=queue
        )

    def _order(self, permit: Permit) -> FetchRequested:
        sampled = self.sampler.take(time.monotonic())
        order = FetchRequested(
            task_id=permit.task_id,
            attempt=permit.attempt,
            url=permit.url,
            domain=permit.domain,
            kind=KINDS[permit.kind],
            proxy_policy=POLICIES[permit.proxy_policy],
            user_agent=permit.user_agent,
            parser=permit.parser,
            follow=permit.follow,
            batch=permit.batch,
            group_key=permit.group_key,
            not_before_time=to_stamp(permit.slot_at),
            start_by_time=to_stamp(permit.start_by),
            give_up_time=to_stamp(permit.give_up_at),
            min_body_bytes=permit.min_body_bytes,
            http2=permit.http2,
            headers=json.loads(permit.headers) if permit.headers != "{}" else None,
            shadow=permit.shadow,
            ignored_signatures=permit.ignored_signatures,
            known=permit.known,
            traceparent=tracing.make_traceparent(permit.trace_id.hex, sampled=sampled),
        )
        if sampled:
            with tracing.use(order.traceparent):
                log.info(
                    "order_sent",
                    task_id=permit.task_id,
                    attempt=permit.attempt,
                    url=permit.url,
                    domain=permit.domain,
                )
        return order


def together(permits: Sequence[Permit], *, fetchers: int) -> list[tuple[str, list[Permit]]]:
    """Orders by queue, a few in each message: every fetcher gets its share, and none waits for a full message."""
    messages: list[tuple[str, list[Permit]]] = []
    for queue in ("high", "normal"):
        some = [permit for permit in permits if (permit.priority <= LAST_HIGH_PRIORITY) == (queue == "high")]
        size = max(1, min(MOST_TOGETHER, len(some) // max(1, fetchers)))
        messages += [(queue, some[at : at + size]) for at in range(0, len(some), size)]
    return messages
