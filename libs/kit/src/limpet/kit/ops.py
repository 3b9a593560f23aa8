"""/livez, /readyz and /metrics: what Kubernetes and Prometheus ask every process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]


DEPENDENCY_UP = Gauge(
    "limpet_dependency_up", "1 while it answers this process, 0 while it is waited for.", ["dependency"]
)
SERVERS = ("postgresql", "nats", "network", "clock")


class Readiness:
    """Ready when nothing is waited for. Liveness depends on nothing but the process itself."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {"service": "starting"}
        # What of this very process is stuck. No lost server is a reason: starting again would not bring it back.
        self.stuck = ""

    def set(self, name: str, *, ok: bool, why: str = "") -> None:
        if name in SERVERS:
            DEPENDENCY_UP.labels(name).set(ok)
        if ok:
            self._waiting.pop(name, None)
        else:
            self._waiting[name] = why

    def started(self) -> None:
        self.set("service", ok=True)

    @property
    def ready(self) -> bool:
        return not self._waiting

    @property
    def waiting_for(self) -> dict[str, str]:
        return dict(self._waiting)


class _Quiet(uvicorn.Server):
    """Signals belong to the process, not to one of its parts."""

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


async def serve_asgi(app: Any, *, host: str, port: int) -> None:
    """Run an ASGI app as a part of the process until cancelled."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        lifespan="off",
        log_config=None,
        ws="none",
        timeout_graceful_shutdown=5,
    )
    server = _Quiet(config)
    task = asyncio.ensure_future(server.serve())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        server.should_exit = True
        await task
        raise


async def serve_ops(readiness: Readiness, *, host: str, port: int) -> None:
    """A part of every process."""

    async def answer(send: Send, status: int, content_type: str, body: bytes) -> None:
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def app(scope: Scope, _receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path == "/livez":
            body = orjson.dumps(
                {"alive": not readiness.stuck} | ({"stuck": readiness.stuck} if readiness.stuck else {})
            )
            await answer(send, 503 if readiness.stuck else 200, "application/json", body)
        elif path == "/readyz":
            body = orjson.dumps({"ready": readiness.ready, "waiting_for": readiness.waiting_for})
            await answer(send, 200 if readiness.ready else 503, "application/json", body)
        elif path == "/metrics":
            await answer(send, 200, CONTENT_TYPE_LATEST, generate_latest())
        else:
            await answer(send, 404, "application/json", b'{"detail":"not found"}')

    await serve_asgi(app, host=host, port=port)
