"""Proxies from the broker: wants and reports of a few milliseconds travel in one call."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
import structlog

from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, LeaseRequest, Outcome, ReportRequest, Used, Want
from limpet.kit.clock import to_seconds
from limpet.kit.gather import Gather

if TYPE_CHECKING:
    # It exists in the stub file only.
    from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceAsyncStub

log = structlog.get_logger()

LEASE_LINGER = 0.005
REPORT_LINGER = 0.1
LEASE_SECONDS = 2.0
REPORT_SECONDS = 5.0
# How long a domain is held when nobody says for how long.
HOLD_SECONDS = 5.0
MAX_HOLD = 600.0
# The lease outlives the request by this, so that the report finds it open.
SPARE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class NoProxy:
    """No proxy may be used now."""

    hold_seconds: float
    why: str


class Proxies:
    def __init__(self, stub: ProxyServiceAsyncStub, *, holder: str) -> None:
        self._stub = stub
        self._holder = holder
        self._leases: Gather[Want, Grant | NoProxy] = Gather(self._lease, linger=LEASE_LINGER)
        self._reports: Gather[Used, None] = Gather(self._report, linger=REPORT_LINGER)
        self._reporting: set[asyncio.Task[None]] = set()

    async def lease(
        self, *, domain: str, task_id: int, attempt: int, seconds: float, now: float, traceparent: str = ""
    ) -> Grant | NoProxy:
        ttl = math.ceil(max(1.0, seconds)) + SPARE_SECONDS
        grant = await self._leases.add(
            Want(domain=domain, task_id=task_id, attempt=attempt, ttl_seconds=ttl, traceparent=traceparent)
        )
        if isinstance(grant, NoProxy) or grant.lease_id:
            return grant
        hold = to_seconds(grant.retry_time) - now if grant.HasField("retry_time") else HOLD_SECONDS
        return NoProxy(min(max(1.0, hold), MAX_HOLD), grant.refusal)

    def report(self, lease_id: int, outcome: Outcome.ValueType, *, response_ms: int = 0, error: str = "") -> None:
        """Nobody waits for it: a lease that is never reported expires."""
        used = Used(lease_id=lease_id, outcome=outcome, response_ms=response_ms, error=error)
        task = asyncio.create_task(self._reports.add(used))
        self._reporting.add(task)
        task.add_done_callback(self._reporting.discard)

    async def drain(self) -> None:
        """Send what has not been reported yet."""
        await asyncio.sleep(0)
        await self._reports.drain()

    async def _lease(self, wants: Sequence[Want]) -> Sequence[Grant | NoProxy]:
        try:
            answer = await self._stub.Lease(LeaseRequest(holder=self._holder, wants=wants), timeout=LEASE_SECONDS)
        except grpc.aio.AioRpcError as error:
            log.warning("lease_failed", wants=len(wants), code=error.code().name, error=error.details())
            return [NoProxy(HOLD_SECONDS, f"the proxy broker is away ({error.code().name})")] * len(wants)
        if len(answer.grants) != len(wants):
            log.error("lease_misanswered", wants=len(wants), grants=len(answer.grants))
            return [NoProxy(HOLD_SECONDS, "the proxy broker answered something else")] * len(wants)
        return list(answer.grants)

    async def _report(self, uses: Sequence[Used]) -> Sequence[None]:
        try:
            await self._stub.Report(ReportRequest(uses=uses), timeout=REPORT_SECONDS)
        except grpc.aio.AioRpcError as error:
            log.warning("report_failed", uses=len(uses), code=error.code().name, error=error.details())
        return [None] * len(uses)
