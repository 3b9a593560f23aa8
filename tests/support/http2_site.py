"""A site that speaks HTTP/2 over TLS, byte for byte as a test says, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, WindowUpdated

from tests.support.hostile import self_signed


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    # Which connection it came over.
    connection: int


@dataclass(frozen=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/html"),)
    # What comes instead of the end.
    then: Callable[[], Awaitable[None]] | None = None


@dataclass
class Http2Site:
    trust: ssl.SSLContext
    port: int = 0
    connections: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    serving: set[asyncio.Task[None]] = field(default_factory=set)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def domain(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"https://{self.domain}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        try:
            await _Connection(self, reader, writer, self.connections).run()
        except asyncio.CancelledError:
            # The end of the test, and no error of the server's.
            pass
        finally:
            self.serving.discard(task)


class _Connection:
    def __init__(
        self, site: Http2Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self._site, self._reader, self._writer, self._number = site, reader, writer, number
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._room = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        self._site.writers.append(self._writer)
        self._h2.initiate_connection()
        self._flush()
        try:
            while data := await self._reader.read(65536):
                for event in self._h2.receive_data(data):
                    if isinstance(event, RequestReceived):
                        headers = {str(name): str(value) for name, value in event.headers or ()}
                        self._site.asked.append(Asked(headers[":path"], headers, self._number))
                        self._answering.add(asyncio.create_task(self._answer(event.stream_id or 0, headers[":path"])))
                    elif isinstance(event, WindowUpdated | DataReceived):
                        self._room.set()
                self._flush()
        except OSError:
            pass
        finally:
            for task in self._answering:
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)
            self._writer.close()

    async def _answer(self, stream: int, path: str) -> None:
        answer = self._site.answers.get(path, Answer(b"not here", 404))
        self._h2.send_headers(stream, [(":status", str(answer.status)), *answer.headers])
        left = answer.body
        while left:
            size = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size, len(left))
            if not size:
                self._flush()
                self._room.clear()
                await self._room.wait()
                continue
            self._h2.send_data(stream, left[:size])
            left = left[size:]
        self._flush()
        if answer.then is not None:
            await answer.then()
        self._h2.end_stream(stream)
        self._flush()

    def _flush(self) -> None:
        self._writer.write(self._h2.data_to_send())


@asynccontextmanager
async def http2_site(folder: Path, *, protocols: tuple[str, ...] = ("h2",)) -> AsyncIterator[Http2Site]:
    served = self_signed(folder)
    served.set_alpn_protocols(list(protocols))
    site = Http2Site(ssl.create_default_context(cafile=str(folder / "hostile.pem")))
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=served)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        serving = list(site.serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
