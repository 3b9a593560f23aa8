"""One address for people and scripts: each request streams to the service that owns its path, and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from yarl import URL

from limpet.health import metrics
from limpet.health.routes import Upstream, owner_of
from limpet.kit import tracing
from limpet.kit.rest import Problem

log = structlog.get_logger()

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Ours to answer or to say, not the upstream's.
NOT_SENT: Final = HOP_BY_HOP | {b"expect", b"x-forwarded-for"}
NOT_RETURNED: Final = HOP_BY_HOP | {b"date", b"server"}

READING: Final = ("GET", "HEAD", "OPTIONS")

Headers = list[tuple[bytes, bytes]]


@asynccontextmanager
async def open_session(*, silence_seconds: float) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that passes bytes on as they are: no cookies, no decoding, no redirects of its own."""
    # An idle connection is dropped before the upstream drops it: a POST on a dying one could not be repeated.
    connector = aiohttp.TCPConnector(limit=1000, keepalive_timeout=2.0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=silence_seconds)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
    ) as session:
        yield session


class FrontDoor:
    """ASGI: what another service owns goes there; the rest goes on to our own application."""

    def __init__(
        self, app: ASGIApp, *, session: aiohttp.ClientSession, addresses: Mapping[Upstream, str], max_body: int
    ) -> None:
        self._app = app
        self._session = session
        self._addresses = addresses
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        upstream = owner_of(scope["path"]) if scope["type"] == "http" else None
        if upstream is None:
            await self._app(scope, receive, send)
            return
        body = _Body(scope["headers"], receive, limit=self._max_body)
        reply = _Reply(send)
        if body.declared > self._max_body:
            await _too_large(self._max_body).response()(scope, receive, send)
            return
        scope = {**scope, "headers": _traced(scope["headers"])}
        if scope["method"] not in READING:
            with tracing.use(_header(scope["headers"], tracing.HEADER.encode())):
                log.info("request_passed_on", method=scope["method"], path=scope["path"][:200], upstream=upstream)
        problem = await self._pass_on(scope, body, reply, upstream)
        if problem is not None and not reply.started:
            metrics.FORWARDED.labels(upstream, f"{problem.status // 100}xx").inc()
            await problem.response()(scope, receive, send)
        # After the start only a cut connection tells the caller that the rest is missing; the server cuts it.

    async def _pass_on(self, scope: Scope, body: _Body, reply: _Reply, upstream: Upstream) -> Problem | None:
        """The problem to report, or None when all was said or nobody is left to hear it."""
        relay = asyncio.create_task(self._relay(scope, body, reply, upstream))
        gone = asyncio.create_task(body.caller_gone())
        try:
            await asyncio.wait({relay, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not relay.done():
                return None
            relay.result()
        except aiohttp.SocketTimeoutError:
            return _away(504, upstream, "did not answer in time")
        except (aiohttp.ClientError, OSError) as error:
            if body.gone:
                return None
            if body.too_large:
                return _too_large(self._max_body)
            log.warning("upstream_failed", upstream=upstream, error=repr(error), answer_started=reply.started)
            return _away(502, upstream, "is away; try again in a moment")
        finally:
            relay.cancel()
            gone.cancel()
            await asyncio.gather(relay, gone, return_exceptions=True)
        return None

    async def _relay(self, scope: Scope, body: _Body, reply: _Reply, upstream: Upstream) -> None:
        started = time.monotonic()
        async with self._session.request(
            scope["method"],
            _target(self._addresses[upstream], scope),
            headers=_request_headers(scope),
            data=body.chunks() if body.expected else None,
            allow_redirects=False,
        ) as answer:
            metrics.FORWARD_SECONDS.labels(upstream).observe(time.monotonic() - started)
            metrics.FORWARDED.labels(upstream, f"{answer.status // 100}xx").inc()
            await reply.start(answer.status, _end_to_end(list(answer.raw_headers), NOT_RETURNED))
            async for chunk in answer.content.iter_any():
                await reply.more(chunk)
            await reply.end()


class _Body:
    """The caller's body as a bounded stream, and the news that the caller hung up."""

    def __init__(self, headers: Headers, receive: Receive, *, limit: int) -> None:
        lengths = [value for name, value in headers if name == b"content-length"]
        self.declared = int(lengths[0]) if lengths and lengths[0].isdigit() else 0
        self.expected = self.declared > 0 or any(name == b"transfer-encoding" for name, _ in headers)
        self.gone = self.too_large = False
        self._receive = receive
        self._limit = limit
        self._read = asyncio.Event()
        if not self.expected:
            self._read.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        seen = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                raise ConnectionAbortedError("the caller hung up")
            chunk: bytes = message.get("body", b"")
            seen += len(chunk)
            if seen > self._limit:
                self.too_large = True
                raise ConnectionAbortedError("the body is too large")
            if chunk:
                yield chunk
            if not message.get("more_body", False):
                self._read.set()
                return

    async def caller_gone(self) -> None:
        """Returns when the caller has hung up after sending all: an endless answer must not outlive its reader."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True


class _Reply:
    """The answer on its way to the caller."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def start(self, status: int, headers: Headers) -> None:
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, chunk: bytes) -> None:
        await self._send(_part(chunk, more=True))

    async def end(self) -> None:
        await self._send(_part(b"", more=False))


def _part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def _target(address: str, scope: Scope) -> URL:
    """The caller's own bytes of path and query: `%2F` in a name stays what it is."""
    query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
    return URL(f"{address}{scope['raw_path'].decode('latin-1')}{query}", encoded=True)


def _request_headers(scope: Scope) -> list[tuple[str, str]]:
    headers = _end_to_end(scope["headers"], NOT_SENT)
    hops = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    if scope.get("client"):
        hops.append(scope["client"][0].encode())
    if hops:
        headers.append((b"x-forwarded-for", b", ".join(hops)))
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _end_to_end(headers: Headers, dropped: frozenset[bytes]) -> Headers:
    """Without the headers that speak of one connection, the ones that `Connection` names included."""
    named = {
        part.strip().lower() for name, value in headers if name.lower() == b"connection" for part in value.split(b",")
    }
    return [(name.lower(), value) for name, value in headers if name.lower() not in dropped | named]


def _traced(headers: Headers) -> Headers:
    """With the caller's trace, or with a new one where it names none: what a submit starts is followed from here."""
    name = tracing.HEADER.encode()
    if tracing.trace_id_of(_header(headers, name)):
        return headers
    rest = [(other, value) for other, value in headers if other != name]
    return [*rest, (name, tracing.new_traceparent(sampled=True).encode())]


def _header(headers: Headers, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == wanted), "")


def _away(status: int, upstream: Upstream, what: str) -> Problem:
    title = "Bad gateway" if status == 502 else "Gateway timeout"
    return Problem(status, title, f"{upstream} {what}", errors=[{"field": "upstream", "message": upstream}])


def _too_large(limit: int) -> Problem:
    return Problem(413, "Body too large", f"at most {limit} bytes", errors=[{"field": "body", "message": "too large"}])
