"""A gRPC edge on a real port: health, reflection, traces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from limpet.contracts.proxy.v1 import proxy_service_pb2
from limpet.contracts.proxy.v1.proxy_service_pb2 import (
    Grant,
    LeaseRequest,
    LeaseResponse,
    ListBlockedRequest,
    ListBlockedResponse,
    ReportRequest,
    ReportResponse,
)
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import (
    ProxyServiceServicer,
    ProxyServiceStub,
    add_ProxyServiceServicer_to_server,
)
from limpet.kit import tracing
from limpet.kit.rpc import MAX_MESSAGE, open_channel, serve_rpc
from tests.support.listening import listening, silent
from tests.support.parts import running
from tests.support.servers import free_port

NAME = proxy_service_pb2.DESCRIPTOR.services_by_name["ProxyService"].full_name


class Echo(ProxyServiceServicer):
    """Answers with the trace it runs in; can be made to take its time."""

    def __init__(self) -> None:
        self.asked, self.release = asyncio.Event(), asyncio.Event()

    async def Lease(self, request: LeaseRequest, context: Any) -> LeaseResponse:  # noqa: N802  # gRPC's name
        self.asked.set()
        if request.holder == "slow":
            await self.release.wait()
        return LeaseResponse(grants=[Grant(refusal=tracing.current())])

    async def Report(self, request: ReportRequest, context: Any) -> ReportResponse:  # noqa: N802  # gRPC's name
        return ReportResponse(taken=len(request.uses))

    async def ListBlocked(self, request: ListBlockedRequest, context: Any) -> ListBlockedResponse:  # noqa: N802
        return ListBlockedResponse()


@asynccontextmanager
async def serving(echo: Echo) -> AsyncIterator[tuple[int, asyncio.Task[None]]]:
    def add(server: grpc.aio.Server) -> None:
        add_ProxyServiceServicer_to_server(echo, server)

    port = free_port()
    async with running(serve_rpc(add, names=[NAME], host="127.0.0.1", port=port)) as server:
        await listening(port)
        yield port, server


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    async with serving(Echo()) as (port, _), open_channel(f"127.0.0.1:{port}") as channel:
        yield channel


@pytest.mark.parametrize("service", ["", NAME])
async def test_the_health_service_says_that_it_serves(channel: grpc.aio.Channel, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_an_unknown_service_is_not_healthy(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="other"), timeout=5)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_lists_the_services(channel: grpc.aio.Channel) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=5)
    answer = await call.read()
    names = {service.name for service in answer.list_services_response.service}
    assert names == {NAME, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


async def test_a_call_carries_its_trace_and_one_without_has_none(channel: grpc.aio.Channel) -> None:
    stub = ProxyServiceStub(channel)
    parent = tracing.new_traceparent(sampled=True)
    with tracing.use(parent):
        metadata = tracing.client_metadata()
    with_trace = await stub.Lease(LeaseRequest(), metadata=metadata, timeout=5)
    without = await stub.Lease(LeaseRequest(), metadata=tracing.client_metadata(), timeout=5)
    assert tracing.trace_id_of(with_trace.grants[0].refusal) == tracing.trace_id_of(parent)
    assert without.grants[0].refusal == ""


async def test_calls_at_the_same_time_keep_their_own_traces(channel: grpc.aio.Channel) -> None:
    stub = ProxyServiceStub(channel)
    parents = [tracing.new_traceparent(sampled=True) for _ in range(20)]
    answers = await asyncio.gather(
        *(stub.Lease(LeaseRequest(), metadata=((tracing.HEADER, parent),), timeout=5) for parent in parents)
    )
    found = [tracing.trace_id_of(answer.grants[0].refusal) for answer in answers]
    assert found == [tracing.trace_id_of(parent) for parent in parents]


async def test_a_request_over_the_limit_is_refused_before_the_handler(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ProxyServiceStub(channel).Lease(LeaseRequest(holder="x" * (MAX_MESSAGE + 1)), timeout=5)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_call_under_way_is_finished_when_the_server_is_stopped() -> None:
    echo = Echo()
    async with serving(echo) as (port, server), open_channel(f"127.0.0.1:{port}") as channel:
        answer = asyncio.ensure_future(ProxyServiceStub(channel).Lease(LeaseRequest(holder="slow"), timeout=5))
        await asyncio.wait_for(echo.asked.wait(), 5)
        server.cancel()
        await silent(port)
        echo.release.set()
        assert len((await answer).grants) == 1
        await asyncio.wait([server], timeout=5)


async def test_a_channel_finds_a_server_that_comes_back() -> None:
    port = free_port()

    def add(server: grpc.aio.Server) -> None:
        add_ProxyServiceServicer_to_server(Echo(), server)

    async with open_channel(f"127.0.0.1:{port}") as channel:
        stub = ProxyServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Lease(LeaseRequest(), timeout=2)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        async with running(serve_rpc(add, names=[NAME], host="127.0.0.1", port=port)):
            assert len((await stub.Lease(LeaseRequest(), timeout=10, wait_for_ready=True)).grants) == 1


async def test_servers_behind_one_address_take_turns_and_one_that_dies_is_left_out() -> None:
    first, second = Echo(), Echo()
    async with (
        serving(first) as (one, server),
        serving(second) as (two, _),
        open_channel(f"127.0.0.1:{one}, ipv4:127.0.0.1:{two}") as channel,
    ):
        stub = ProxyServiceStub(channel)
        async with asyncio.timeout(10):
            while not (first.asked.is_set() and second.asked.is_set()):
                await stub.Lease(LeaseRequest(), timeout=5, wait_for_ready=True)
        server.cancel()
        await silent(one)
        second.asked.clear()
        for _ in range(4):
            await stub.Lease(LeaseRequest(), timeout=5, wait_for_ready=True)
        assert second.asked.is_set()
