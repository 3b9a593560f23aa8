"""What the real proxies of the tests have in common: a log of their own, moods, and connections that end with the test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

HEAD_BYTES = 64 << 10


class Mood(StrEnum):
    """How the proxy treats whoever comes."""

    WELL = "well"
    # Hangs up without a word.
    CLOSE = "close"
    # Takes nobody's credentials.
    REFUSE = "refuse"
    # Lets nobody through: 403, or "not allowed" in SOCKS.
    FORBID = "forbid"
    # Takes the connection and says nothing.
    HANG = "hang"


@dataclass(frozen=True)
class Passed:
    """One request, or one connection of SOCKS, that was let through: when, where to, and as whom."""

    at: float
    target: str
    user: str


@dataclass
class RealProxy:
    # `user:password`, or empty for a proxy that anybody may use.
    credentials: str = ""
    port: int = 0
    mood: Mood = Mood.WELL
    # What this proxy alone knows about names.
    names: dict[str, str] = field(default_factory=dict)
    log: list[Passed] = field(default_factory=list)
    # The users of those who were turned away for their credentials.
    refused: list[str] = field(default_factory=list)
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0
    _running: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def seen(self) -> list[str]:
        return [passed.target for passed in self.log]

    @property
    def user(self) -> str:
        return self.credentials.partition(":")[0]

    @property
    def password(self) -> str:
        return self.credentials.partition(":")[2]

    async def speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """On the port it had before, where it had one."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Nobody answers any more, and who was connected is cut off."""
        if self._server is not None:
            self._server.close()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def passed(self, target: str, user: str) -> None:
        self.log.append(Passed(time.time(), target, user))

    async def pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.gather(_pump(reader, far[1]), _pump(far[0], writer))
        finally:
            self.at_once -= 1
            far[1].close()

    async def dial(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.names.get(host, host), port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self.connections += 1
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                if self.mood is Mood.HANG:
                    await reader.read()
                elif self.mood is not Mood.CLOSE:
                    await self.speak(reader, writer)
        finally:
            self._running.discard(task)
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(64 << 10):
            writer.write(data)
            await writer.drain()
    writer.close()


P = TypeVar("P", bound=RealProxy)


@asynccontextmanager
async def serving(proxy: P) -> AsyncIterator[P]:
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
