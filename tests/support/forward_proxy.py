"""A real forward HTTP proxy on loopback: absolute requests and CONNECT, with or without credentials, and a log."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

HEAD_BYTES = 64 << 10


@dataclass
class ForwardProxy:
    port: int = 0
    credentials: str = ""
    # The target of every request that was let through, and the credentials of every one that was not.
    seen: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, version = first.split(" ")
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        given = next((value for name, value in headers if name.lower() == "proxy-authorization"), "")
        wanted = "Basic " + base64.b64encode(self.credentials.encode()).decode() if self.credentials else ""
        if given != wanted:
            self.refused.append(given)
            writer.write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=proxy\r\n"
                b"Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
            await writer.drain()
            return
        self.seen.append(target)
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            up_reader, up_writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            parts = urlsplit(target)
            up_reader, up_writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            kept = [
                f"{name}: {value}" for name, value in headers if not name.lower().startswith(("proxy-", "connection"))
            ]
            text = "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close"])
            up_writer.write(text.encode("latin-1") + b"\r\n\r\n")
        await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(64 << 10):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def forward_proxy(*, credentials: str = "") -> AsyncIterator[ForwardProxy]:
    """`credentials` is `user:password`, or empty for a proxy that anybody may use."""
    proxy = ForwardProxy(credentials=credentials)
    running: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await proxy.serve(reader, writer)
        finally:
            running.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=HEAD_BYTES)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
