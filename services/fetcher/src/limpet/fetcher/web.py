"""One GET, and whatever comes of it as a value: a page or a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from ssl import SSLContext
from types import MappingProxyType

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.http2 import Http2
from limpet.fetcher.page import Page, page_of, plain
from limpet.fetcher.rate import Dripping, Rate
from limpet.fetcher.socks import SOCKS_ERRORS, SocksSessions, socks_failure
from limpet.fetcher.validate import Failure
from limpet.fetcher.via import PROTOCOLS, SOCKS5, Via
from limpet.kit.guard import AddressForbidden, Guard, GuardedResolver

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
# All of them are unpacked piece by piece, so that a bomb is stopped at the cap.
CODINGS = "gzip, deflate, br, zstd"
MAX_HEADERS, MAX_HEADER_BYTES = 128, 8190
# aiohttp rounds longer timeouts up to whole seconds, which would pass the time to give up.
_NEVER_ROUND = 1e9
CONNECT_SECONDS = 15.0
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Web:
    """Connections are kept per origin and proxy. The seam behind which another client could stand."""

    def __init__(
        self,
        direct: aiohttp.ClientSession,
        proxied: aiohttp.ClientSession,
        socks: SocksSessions,
        http2: Http2,
        *,
        guard: Guard,
        max_body_bytes: int,
        rate: Rate,
    ) -> None:
        self._direct = direct
        self._proxied = proxied
        self._socks = socks
        self._http2 = http2
        self._guard = guard
        self._most = max_body_bytes
        self._rate = rate

    async def get(
        self,
        url: str,
        *,
        user_agent: str,
        seconds: float,
        via: Via | None = None,
        cookie: str = "",
        cut_at: int = 0,
        headers: Mapping[str, str] = NO_HEADERS,
        http2: bool = False,
    ) -> Page | Failure:
        """With `cut_at` only so many bytes are read, and a longer body is no failure.

        `http2` asks for it where the site is reached by TLS; a site that does not speak it is spoken to as ever.
        """
        headers = dict(headers)
        if user_agent:
            headers["User-Agent"] = user_agent
        if cookie:
            headers["Cookie"] = cookie
        if via is not None and via.protocol not in PROTOCOLS:
            return Failure(
                FailureKind.FAILURE_KIND_PROXY,
                f"the leased proxy speaks {plain(via.protocol)}, which this fetcher does not support",
                unsent=True,
            )
        try:
            return await self._get(url, headers, seconds=seconds, via=via, cut_at=cut_at, http2=http2)
        except AddressForbidden as error:
            return Failure(FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS, plain(str(error)))
        except TimeoutError:
            return Failure(FailureKind.FAILURE_KIND_TIMEOUT, f"no complete answer within {seconds:.1f} s")
        except aiohttp.ClientProxyConnectionError:
            # Its text names the proxy's address, which stays out of facts and logs.
            return Failure(FailureKind.FAILURE_KIND_PROXY, "the proxy refused the connection", unsent=True)
        except aiohttp.ClientHttpProxyError as error:
            # With 5xx it says that it has tried to reach the site.
            text = f"the proxy refused the connection with status {error.status}"
            return Failure(FailureKind.FAILURE_KIND_PROXY, text, unsent=error.status < 500)
        except SOCKS_ERRORS as error:
            return socks_failure(error)
        except (aiohttp.ClientError, OSError, EOFError, ValueError) as error:
            if via is not None and isinstance(error, aiohttp.ClientConnectorDNSError):
                # The only name that is resolved here on the way through a proxy is the proxy's own.
                return Failure(FailureKind.FAILURE_KIND_PROXY, "the proxy's name is not known", unsent=True)
            text = type(error).__name__ if via is not None else f"{type(error).__name__}: {error}"
            return Failure(FailureKind.FAILURE_KIND_NETWORK, plain(text))

    async def _get(
        self, url: str, headers: dict[str, str], *, seconds: float, via: Via | None, cut_at: int, http2: bool
    ) -> Page | Failure:
        target = URL(url, encoded=True)
        self._guard.check_literal(target.raw_host or "", target.port or 0)
        if http2 and target.scheme == "https":
            headers = {"Accept": ACCEPT, "Accept-Encoding": CODINGS, **headers}
            return await self._http2.get(target, headers, seconds=seconds, via=via, cut_at=cut_at)
        if via is None:
            return await self._ask(self._direct, target, headers, seconds=seconds, cut_at=cut_at)
        if via.protocol == SOCKS5:
            async with self._socks.session(via) as session:
                return await self._ask(session, target, headers, seconds=seconds, cut_at=cut_at)
        if target.scheme == "http":
            # A plain request is sent to the proxy itself; a tunnel is asked for with headers of its own.
            headers |= via.credentials
        return await self._ask(self._proxied, target, headers, seconds=seconds, cut_at=cut_at, through=via)

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        target: URL,
        headers: dict[str, str],
        *,
        seconds: float,
        cut_at: int,
        through: Via | None = None,
    ) -> Page | Failure:
        response = await session.get(
            target,
            allow_redirects=False,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS, ceil_threshold=_NEVER_ROUND),
            proxy=through.url if through is not None else None,
            proxy_headers=through.credentials if through is not None else None,
        )
        try:
            if through is not None and response.status == 407:
                return Failure(FailureKind.FAILURE_KIND_PROXY, "the proxy did not take its credentials", unsent=True)
            body = await self._read(response, cut_at=cut_at)
        finally:
            # One that was read to its end has let go of its connection already.
            if not response.closed:
                response.release()
        if isinstance(body, Failure):
            return body
        cookies = response.headers.getall("Set-Cookie", ())
        received = len(body) if cut_at else response.content_length or len(body)
        return page_of(response.status, response.headers, body, cookies=cookies, received_bytes=received)

    async def _read(self, response: aiohttp.ClientResponse, *, cut_at: int) -> bytes | Failure:
        """The decoded body. When it is too large or too slow the connection is closed, not read to its end."""
        most = cut_at or self._most
        if not cut_at and (response.content_length or 0) > most:
            response.close()
            return self._too_large()
        content = response.content
        if content.is_eof():
            body = await content.readany()
        else:
            # Only what did not arrive together with its headers is worth a timer.
            with Dripping(lambda: content.total_raw_bytes, response.close, self._rate) as dripping:
                try:
                    body = await _read_up_to(content, most)
                except aiohttp.ClientError:
                    if not dripping.found:
                        raise
                    return self._rate.failure
        if not content.at_eof():
            response.close()
        if len(body) <= most:
            return body
        return body[:most] if cut_at else self._too_large()

    def _too_large(self) -> Failure:
        return Failure(FailureKind.FAILURE_KIND_TOO_LARGE, f"more than {self._most} bytes")


async def _read_up_to(content: aiohttp.StreamReader, most: int) -> bytes:
    """All of the body, or a little more than `most` bytes of it."""
    chunks: list[bytes] = []
    size = 0
    while size <= most and (chunk := await content.readany()):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks) if len(chunks) != 1 else chunks[0]


@asynccontextmanager
async def open_web(
    *,
    guard: Guard,
    max_body_bytes: int,
    rate: Rate | None = None,
    resolver: AbstractResolver | None = None,
    trust: SSLContext | None = None,
) -> AsyncIterator[Web]:
    """`resolver` finds the addresses of names where the system's own shall not; `trust` whose certificates count with HTTP/2."""
    rate = rate or Rate()
    checked = GuardedResolver(guard, inner=resolver)
    # A proxy's address is the operator's choice and may be private, so only the direct way has the guard.
    async with (
        _session(aiohttp.TCPConnector(limit=0, resolver=checked, ttl_dns_cache=60)) as direct,
        _session(aiohttp.TCPConnector(limit=0)) as proxied,
        aclosing(SocksSessions(_session)) as socks,
        aclosing(Http2(checked, max_body_bytes=max_body_bytes, rate=rate, trust=trust)) as http2,
    ):
        yield Web(direct, proxied, socks, http2, guard=guard, max_body_bytes=max_body_bytes, rate=rate)


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept": ACCEPT, "Accept-Encoding": CODINGS},
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
        trust_env=False,
    )
    # One attempt is one request: a second one on a fresh connection would break the domain's pace.
    session._retry_connection = False
    return session
