"""Somebody who has asked for webhooks: a real server that remembers what it was sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from limpet.scheduler.signature import ID_HEADER


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def delivery_id(self) -> str:
        return self.headers[ID_HEADER]


@dataclass
class Receiver:
    port: int = 0
    got: list[Received] = field(default_factory=list)
    # Statuses of the next answers; 200 when there are no more.
    answers: list[int] = field(default_factory=list)
    # Nobody is answered before it is set.
    open: asyncio.Event = field(default_factory=asyncio.Event)
    in_hand: Counter[str] = field(default_factory=Counter)
    most_at_once: int = 0

    def url(self, path: str = "/hook", *, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def heard(self) -> bool:
        return bool(self.got)

    async def take(self, request: web.Request) -> web.Response:
        received = Received(request.path_qs, dict(request.headers), await request.read())
        self.got.append(received)
        self.in_hand[received.delivery_id] += 1
        self.most_at_once = max(self.most_at_once, *self.in_hand.values())
        try:
            await self.open.wait()
        finally:
            self.in_hand[received.delivery_id] -= 1
        status = self.answers.pop(0) if self.answers else 200
        headers = {"Location": self.url("/elsewhere")} if 300 <= status < 400 else {}
        return web.Response(status=status, headers=headers, text="thank you")


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    found.open.set()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.take)
    # Requests that are never answered are cut off, not waited for.
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found.port = runner.addresses[0][1]
        yield found
    finally:
        await runner.cleanup()
