"""gRPC edges: a server with health and reflection, a channel that reconnects, traces in the metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from limpet.kit import tracing

MAX_MESSAGE = 4 << 20
_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.so_reuseport", 0),
]
# Replicas behind one name take turns. A server that comes back is found again within seconds, not minutes.
_CLIENT_OPTIONS = [
    *_OPTIONS,
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


class _Traced(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stub file only
    """Handlers run inside the caller's trace."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any]]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any]:
        handler = await continuation(details)
        traceparent = dict(details.invocation_metadata or ()).get(tracing.HEADER, "")
        if not traceparent or handler is None or handler.unary_unary is None:
            return handler
        inner = handler.unary_unary

        async def traced(request: Any, context: Any) -> Any:
            with tracing.use(str(traceparent)):
                return await inner(request, context)

        return grpc.unary_unary_rpc_method_handler(
            traced, request_deserializer=handler.request_deserializer, response_serializer=handler.response_serializer
        )


async def serve_rpc(add: Callable[[grpc.aio.Server], None], *, names: Sequence[str], host: str, port: int) -> None:
    """A part of the process: serves until cancelled, then lets calls finish for two seconds."""
    server = grpc.aio.server(interceptors=[_Traced()], options=_OPTIONS)
    add(server)
    checks = health.aio.HealthServicer()  # type: ignore[attr-defined]  # made at import time
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    server.add_insecure_port(f"{host}:{port}")
    await server.start()
    for name in ("", *names):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    try:
        await server.wait_for_termination()
    finally:
        await server.stop(2)


def target_of(address: str) -> str:
    """Several addresses, comma-separated, with or without `ipv4:` before each, are one target of gRPC."""
    addresses = [one.strip().removeprefix("ipv4:") for one in address.split(",")]
    return f"ipv4:{','.join(addresses)}" if len(addresses) > 1 else address


@asynccontextmanager
async def open_channel(address: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(target_of(address), options=_CLIENT_OPTIONS) as channel:
        yield channel
