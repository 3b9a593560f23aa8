"""HTTP/2 for the domains that ask for it, by httpx: a client for each origin and proxy, thrown away at the first trouble.

Its pool does not survive requests that are given up (encode/httpcore#1093), and it has neither a deadline for the whole
nor a cap: so no pool is used again after one of them, and deadline, rate and caps are kept here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import httpcore
import httpx
from aiohttp.abc import AbstractResolver
from h2.exceptions import H2Error
from yarl import URL

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.page import Page, page_of, plain
from limpet.fetcher.rate import Dripping, Rate
from limpet.fetcher.socks import SOCKS_ERRORS, socks_failure
from limpet.fetcher.unpack import Unpacker
from limpet.fetcher.validate import Failure
from limpet.fetcher.via import SOCKS5, Via
from limpet.fetcher.wire import ProxyUnreachable, Wire

MOST_CLIENTS: Final = 256
KEPT_SECONDS: Final = 15.0
MAX_HEADERS, MAX_HEADER_BYTES = 128, 8190
CONNECT_SECONDS: Final = 15.0
HTTP2_ERRORS = (httpx.HTTPError, httpx.InvalidURL, H2Error, OSError, EOFError, ValueError)
# Scheme, host and port, and the proxy.
_Key: TypeAlias = tuple[str, str, int, Via | None]


@dataclass(slots=True, eq=False)
class _Client:
    transport: httpx.AsyncHTTPTransport
    wire: Wire
    users: int = 0
    # An answer was left before its end: what still comes of it would fill the connection that others use.
    is_spoilt: bool = False


class Http2:
    def __init__(
        self, resolver: AbstractResolver, *, max_body_bytes: int, rate: Rate, trust: ssl.SSLContext | None = None
    ) -> None:
        """`resolver` checks the addresses that it finds. `trust` says whose certificates count, where not the system."""
        self._resolver = resolver
        self._most = max_body_bytes
        self._rate = rate
        # Its list of protocols is changed by the client, so it is nobody else's.
        self._trust = trust or ssl.create_default_context()
        # The one that was not used for longest comes first.
        self._kept: dict[_Key, _Client] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(
        self, target: URL, headers: Mapping[str, str], *, seconds: float, via: Via | None, cut_at: int
    ) -> Page | Failure:
        """Raises TimeoutError after so many seconds, AddressForbidden."""
        try:
            async with asyncio.timeout(seconds), self._client(target, via) as client:
                return await self._ask(client, target, headers, cut_at=cut_at)
        except ProxyUnreachable:
            return Failure(FailureKind.FAILURE_KIND_PROXY, "the proxy refused the connection", unsent=True)
        except httpx.ProxyError as error:
            said = str(error)[:3]
            if said == "407":
                return Failure(FailureKind.FAILURE_KIND_PROXY, "the proxy did not take its credentials", unsent=True)
            text = f"the proxy refused the connection with status {said}"
            return Failure(FailureKind.FAILURE_KIND_PROXY, text, unsent=said < "500")
        except SOCKS_ERRORS as error:
            return socks_failure(error)
        except HTTP2_ERRORS as error:
            if isinstance(error, TimeoutError):
                raise
            text = type(error).__name__ if via is not None else f"{type(error).__name__}: {error}"
            return Failure(FailureKind.FAILURE_KIND_NETWORK, plain(text))

    async def aclose(self) -> None:
        kept, self._kept = self._kept, {}
        for client in kept.values():
            await client.transport.aclose()

    @asynccontextmanager
    async def _client(self, target: URL, via: Via | None) -> AsyncIterator[_Client]:
        """Whatever ends otherwise than well takes its client with it; others that use it finish first."""
        key = (target.scheme, target.raw_host or "", target.port or 0, via)
        client = self._kept.pop(key, None)
        if client is not None and client.wire.is_over:
            await self._drop(client)
            client = None
        if client is None:
            client = self._made(via)
        self._kept[key] = client
        client.users += 1
        try:
            yield client
        except BaseException:
            client.is_spoilt = True
            raise
        finally:
            client.users -= 1
            if client.is_spoilt and self._kept.get(key) is client:
                del self._kept[key]
            if self._kept.get(key) is not client:
                await self._drop(client)
            await self._trim()

    async def _drop(self, client: _Client) -> None:
        if not client.users:
            await client.transport.aclose()

    async def _trim(self) -> None:
        while len(self._kept) > MOST_CLIENTS:
            idle = next((key for key, client in self._kept.items() if not client.users), None)
            if idle is None:
                return
            await self._drop(self._kept.pop(idle))

    def _made(self, via: Via | None) -> _Client:
        wire = Wire(via, self._resolver)
        transport = httpx.AsyncHTTPTransport(verify=self._trust, trust_env=False)
        # httpx has no place to say how connections are made; what it wraps has.
        if via is None or via.protocol == SOCKS5:
            transport._pool = httpcore.AsyncConnectionPool(
                ssl_context=self._trust,
                http2=True,
                max_connections=None,
                keepalive_expiry=KEPT_SECONDS,
                network_backend=wire,
            )
        else:
            transport._pool = httpcore.AsyncHTTPProxy(
                str(via.url),
                proxy_headers=list(via.credentials.items()),
                ssl_context=self._trust,
                http2=True,
                max_connections=None,
                keepalive_expiry=KEPT_SECONDS,
                network_backend=wire,
            )
        return _Client(transport, wire)

    async def _ask(self, client: _Client, target: URL, headers: Mapping[str, str], *, cut_at: int) -> Page | Failure:
        extensions = {"timeout": {"connect": CONNECT_SECONDS}}
        request = httpx.Request("GET", str(target), headers=dict(headers), extensions=extensions)
        response = await client.transport.handle_async_request(request)
        try:
            if len(response.headers.raw) > MAX_HEADERS:
                raise ValueError(f"more than {MAX_HEADERS} headers")
            if max(len(name) + len(value) for name, value in response.headers.raw or [(b"", b"")]) > MAX_HEADER_BYTES:
                raise ValueError(f"a header of more than {MAX_HEADER_BYTES} bytes")
            body = await self._read(client, response, cut_at=cut_at)
        finally:
            await response.aclose()
        if isinstance(body, Failure):
            return body
        cookies, received = response.headers.get_list("Set-Cookie"), response.num_bytes_downloaded
        return page_of(response.status_code, response.headers, body, cookies=cookies, received_bytes=received)

    async def _read(self, client: _Client, response: httpx.Response, *, cut_at: int) -> bytes | Failure:
        """The decoded body, up to the cap."""
        most, size, chunks = cut_at or self._most, 0, []
        unpacker = Unpacker(response.headers.get("Content-Encoding", ""))
        loop = asyncio.get_running_loop()
        limit = asyncio.timeout(None)
        with Dripping(
            lambda: response.num_bytes_downloaded, lambda: limit.reschedule(loop.time()), self._rate
        ) as dripping:
            try:
                async with limit:
                    async for raw in response.aiter_raw():
                        for piece in unpacker.pieces(raw):
                            chunks.append(piece)
                            size += len(piece)
                            if size > most:
                                break
                        if size > most:
                            break
            except TimeoutError:
                if not dripping.found:
                    raise
                client.is_spoilt = True
                return self._rate.failure
        client.is_spoilt |= size > most
        if size > most and not cut_at:
            return Failure(FailureKind.FAILURE_KIND_TOO_LARGE, f"more than {self._most} bytes")
        return b"".join(chunks)[:most]
