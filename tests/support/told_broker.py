"""A gRPC server in the broker's place: gives what it is told to give, keeps what it hears, and can be slow or lose an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from limpet.contracts.proxy.v1.proxy_service_pb2 import (
    Grant,
    LeaseRequest,
    LeaseResponse,
    ListBlockedRequest,
    ListBlockedResponse,
    ReportRequest,
    ReportResponse,
    Used,
    Want,
)
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceServicer, add_ProxyServiceServicer_to_server


@dataclass(eq=False)
class ToldBroker(ProxyServiceServicer):
    """Each new attempt gets a lease of its own, the same attempt the same one until it is reported, as the contract says."""

    grant: Grant
    wants: list[Want] = field(default_factory=list)
    uses: list[Used] = field(default_factory=list)
    calls: int = 0
    # So many answers are lost on their way back.
    loses: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)
    given: dict[tuple[int, int], Grant] = field(default_factory=dict)
    # What the next leases are of, before those of `grant`.
    first: list[Grant] = field(default_factory=list)
    count: int = 0
    closed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.open.set()

    async def Lease(self, request: LeaseRequest, context: Any) -> LeaseResponse:  # noqa: N802
        self.calls += 1
        self.wants += request.wants
        await self.open.wait()
        grants = [self._give(want) for want in request.wants]
        if self.loses:
            self.loses -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
        return LeaseResponse(grants=grants)

    async def Report(self, request: ReportRequest, _context: Any) -> ReportResponse:  # noqa: N802
        self.calls += 1
        self.uses += request.uses
        self.closed |= {used.lease_id for used in request.uses}
        return ReportResponse(taken=len(request.uses))

    async def ListBlocked(self, request: ListBlockedRequest, _context: Any) -> ListBlockedResponse:  # noqa: N802
        return ListBlockedResponse()

    def _give(self, want: Want) -> Grant:
        key = (want.task_id, want.attempt)
        if key not in self.given or self.given[key].lease_id in self.closed:
            self.given[key] = Grant()
            self.given[key].CopyFrom(self.first.pop(0) if self.first else self.grant)
            if self.grant.lease_id:
                self.given[key].lease_id = self.grant.lease_id + self.count
                self.count += 1
        return self.given[key]


@asynccontextmanager
async def told_broker(broker: ToldBroker, *, port: int = 0) -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_ProxyServiceServicer_to_server(broker, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        await server.stop(0)
