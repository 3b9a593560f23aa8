"""A server that no crawler can keep busy: answers made beforehand, a bare protocol, and a count of what was asked."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from dataclasses import dataclass, field
from typing import cast

import uvloop

from bench.pages import Page, make_pages

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
ROBOTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 24\r\n\r\nUser-agent: *\nDisallow:\n"


@dataclass
class Content:
    """What can be asked for, and what was."""

    pages: dict[bytes, Page]
    requests: int = 0
    seen: set[bytes] = field(default_factory=set)

    def answer(self, path: bytes) -> tuple[bytes, ...]:
        if (page := self.pages.get(path)) is not None:
            self.requests += 1
            self.seen.add(path)
            return (page.own, page.tail) if page.tail else (page.own,)
        if path == b"/robots.txt":
            return (ROBOTS,)
        if path in (b"/_count", b"/_reset"):
            body = json.dumps({"requests": self.requests, "pages": len(self.seen)}).encode()
            if path == b"/_reset":
                self.requests, self.seen = 0, set()
            return (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body),
                body,
            )
        return (NOT_FOUND,)


class Connection(asyncio.Protocol):
    """One keep-alive connection. Requests may arrive in pieces or several at once; answers leave in their order."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            path = head.split(b" ", 2)[1]
            if not path.startswith(b"/"):
                # Asked as a proxy is, for a whole address: it stands in for a proxy that costs nothing.
                path = b"/" + path.split(b"/", 3)[3]
            self._transport.writelines(self._content.answer(path))
            if b"connection: close" in head.lower():
                self._transport.close()
                return


async def serve(content: Content, *, host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for kind in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(kind, stop.set)
    server = await loop.create_server(lambda: Connection(content), host, port, backlog=1024)
    address = server.sockets[0].getsockname()
    print(f"http://{address[0]}:{address[1]}", flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.site", description=__doc__)
    options.add_argument("--pages", type=int, default=6000)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=0)
    given = options.parse_args()
    uvloop.run(serve(Content(make_pages(given.pages)), host=given.host, port=given.port))


if __name__ == "__main__":
    main()
