"""A real forward HTTP proxy on loopback: absolute requests and CONNECT, with or without credentials, and a log."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from tests.support.real_proxy import Mood, RealProxy, serving

NOT_TAKEN = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=proxy\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ForwardProxy(RealProxy):
    """One request per connection: what runs at once is what the log calls so."""

    async def speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, version = first.split(" ")
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        given = next((value for name, value in headers if name.lower() == "proxy-authorization"), "")
        wanted = "Basic " + base64.b64encode(self.credentials.encode()).decode() if self.credentials else ""
        if given != wanted or self.mood is Mood.REFUSE:
            self.refused.append(_user(given))
            writer.write(NOT_TAKEN)
            await writer.drain()
            return
        self.passed(target, _user(given))
        if self.mood is Mood.FORBID:
            writer.write(FORBIDDEN)
            await writer.drain()
            return
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            far = await self.dial(host.strip("[]"), int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            parts = urlsplit(target)
            far = await self.dial(parts.hostname or "", parts.port or 80)
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            kept = [
                f"{name}: {value}" for name, value in headers if not name.lower().startswith(("proxy-", "connection"))
            ]
            text = "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close"])
            far[1].write(text.encode("latin-1") + b"\r\n\r\n")
        await self.pass_on(reader, writer, far)


def _user(header: str) -> str:
    return base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")[0]


def forward_proxy(*, credentials: str = "") -> AbstractAsyncContextManager[ForwardProxy]:
    """`credentials` is `user:password`, or empty for a proxy that anybody may use."""
    return serving(ForwardProxy(credentials=credentials))
