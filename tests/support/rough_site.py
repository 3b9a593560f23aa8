"""A site that answers byte for byte as a test says, well or badly, and remembers what it was asked and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Rough = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Asked:
    """One request: its first line, its headers, and the moment it had arrived."""

    target: str
    headers: dict[str, str]
    at: float


@dataclass
class RoughSite:
    port: int = 0
    answers: dict[str, bytes | Rough] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def domain(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.domain}{path}"

    def targets(self) -> list[str]:
        return [asked.target for asked in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *lines = head.decode("latin-1").strip().split("\r\n")
                target = line.split(" ")[1]
                headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in lines)}
                self.asked.append(Asked(target, headers, time.time()))
                answer = self.answers.get(target.partition("?")[0], reply(b"not here", "404 Not Found"))
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
                if headers.get("connection", "").lower() == "close":
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def stop(self) -> None:
        """Some answers never end by themselves."""
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def reply(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer. `content_type="x"` is the header Content-Type."""
    shown = {"content_type": "text/html", "content_length": str(len(body)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in shown.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


@asynccontextmanager
async def rough_site() -> AsyncIterator[RoughSite]:
    site = RoughSite()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, limit=1 << 20)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await site.stop()
        await server.wait_closed()
