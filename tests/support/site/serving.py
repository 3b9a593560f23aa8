"""Serve answers on one or many loopback ports and write down every request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from aiohttp import web

from tests.support.site.requests import Record, RequestLog, as_line

SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True)
class Answer:
    """What the site says to one request, and how long it thinks before."""

    body: bytes
    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    after_seconds: float = 0.0


class Site:
    """A site on `ports` loopback ports; subclasses say what it answers."""

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, ports: int = 1, log_file: Path | None = None) -> None:
        self.log = RequestLog()
        self.urls: list[str] = []
        self._host = host
        self._wanted = [port] + [0] * (ports - 1)
        self._log_file = log_file
        self._lines: BinaryIO | None = None
        self._runner: web.ServerRunner | None = None

    def answer(self, path: str, *, origin: str) -> Answer:
        raise NotImplementedError

    @property
    def url(self) -> str:
        """The first origin, without a slash at the end."""
        return self.urls[0]

    @property
    def host(self) -> str:
        """The first origin's host and port, as the Host header and the log name it."""
        return self.url.removeprefix("http://")

    @property
    def hosts(self) -> list[str]:
        return [url.removeprefix("http://") for url in self.urls]

    async def __aenter__(self) -> Self:
        if self._log_file is not None:
            # Unbuffered: another process reads the file while we write it.
            self._lines = self._log_file.open("ab", buffering=0)
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        for wanted in self._wanted:
            await web.TCPSite(self._runner, self._host, wanted, backlog=1024).start()
        self.urls = [f"http://{address[0]}:{address[1]}" for address in self._runner.addresses]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._lines is not None:
            self._lines.close()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        started_at, started = time.time(), time.monotonic()
        answer = self.answer(request.path_qs, origin=f"http://{request.host}")
        status = 499  # what stays in the log when the client or the site goes away meanwhile
        try:
            if answer.after_seconds > 0:
                await asyncio.sleep(answer.after_seconds)
            status = answer.status
        finally:
            # Written before the answer leaves, so that whoever has the answer also finds the record.
            self._remember(request, started_at=started_at, started=started, status=status)
        return web.Response(
            body=answer.body, status=status, headers={"Content-Type": answer.content_type, **answer.headers}
        )

    def _remember(self, request: web.BaseRequest, *, started_at: float, started: float, status: int) -> None:
        peer = request.transport.get_extra_info("peername") if request.transport else None
        record = Record(
            path=request.path_qs,
            host=request.host,
            started_at=started_at,
            started=started,
            ended=time.monotonic(),
            status=status,
            peer=f"{peer[0]}:{peer[1]}" if peer else "",
            agent=request.headers.get("User-Agent", ""),
        )
        self.log.append(record)
        if self._lines is not None:
            self._lines.write(as_line(record))
