"""SOCKS5 proxies: a session for each, so that connections are kept per origin and proxy. The proxy resolves names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ssl import SSLContext

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp_socks import ProxyConnectionError, ProxyConnector, ProxyError, ProxyTimeoutError, ProxyType

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.validate import Failure
from limpet.fetcher.via import Via

# Sessions that are kept; those in use are never closed, so there are at most as many more as orders in hand.
MOST_SESSIONS = 256
# What a proxy may say of the site (RFC 1928, section 6). That it has no network itself is its own fault.
GENERAL_FAILURE, NO_NETWORK = 0x01, 0x03
_OF_THE_SITE = {
    NO_NETWORK: "the proxy has no way to the site's network",
    0x04: "the proxy could not reach the site",
    0x05: "the site refused the proxy's connection",
    0x06: "the proxy's connection to the site took too many hops",
}
# Their texts name the proxy's address, which stays out of facts and logs.
SOCKS_ERRORS = (ProxyError, ProxyConnectionError, ProxyTimeoutError)


@dataclass(slots=True)
class _Kept:
    session: aiohttp.ClientSession
    users: int = 0


class SocksSessions:
    def __init__(
        self, make: Callable[[aiohttp.TCPConnector], aiohttp.ClientSession], *, most: int = MOST_SESSIONS
    ) -> None:
        self._make = make
        self._most = most
        # The one that was not used for longest comes first.
        self._kept: dict[Via, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @asynccontextmanager
    async def session(self, via: Via) -> AsyncIterator[aiohttp.ClientSession]:
        kept = self._kept.pop(via, None) or _Kept(self._make(_connector(via)))
        self._kept[via] = kept
        kept.users += 1
        try:
            yield kept.session
        finally:
            kept.users -= 1
            await self._trim()

    async def aclose(self) -> None:
        kept, self._kept = self._kept, {}
        for one in kept.values():
            await one.session.close()

    async def _trim(self) -> None:
        while len(self._kept) > self._most:
            idle = next((via for via, kept in self._kept.items() if not kept.users), None)
            if idle is None:
                return
            await self._kept.pop(idle).session.close()


def socks_failure(error: ProxyError | ProxyConnectionError | ProxyTimeoutError) -> Failure:
    """The proxy's own failure, or what it says of the site."""
    if isinstance(error, ProxyTimeoutError):
        return Failure(FailureKind.FAILURE_KIND_TIMEOUT, "the proxy did not connect in time")
    if isinstance(error, ProxyConnectionError):
        return Failure(FailureKind.FAILURE_KIND_PROXY, "the proxy refused the connection", unsent=True)
    code = error.error_code or 0
    if said := _OF_THE_SITE.get(code):
        return Failure(FailureKind.FAILURE_KIND_NETWORK, said, of_the_site=code != NO_NETWORK)
    if code:
        # A general failure (1) may be one of the site as well.
        text = f"the proxy refused the connection with SOCKS reply {int(code)}"
        return Failure(FailureKind.FAILURE_KIND_PROXY, text, unsent=code != GENERAL_FAILURE)
    text = "the proxy did not take its credentials or does not speak SOCKS5"
    return Failure(FailureKind.FAILURE_KIND_PROXY, text, unsent=True)


class _Connector(ProxyConnector):
    async def _connect_via_proxy(
        self, host: str, port: int, ssl: SSLContext | None = None, timeout: float | None = None
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        try:
            return await super()._connect_via_proxy(host, port, ssl, timeout)
        except ConnectionError as error:
            if ssl is not None:
                # It may as well be the site that hung up on the handshake.
                raise
            raise ProxyConnectionError("the proxy hung up") from error


def _connector(via: Via) -> ProxyConnector:
    return _Connector(
        proxy_type=ProxyType.SOCKS5,
        host=via.host,
        port=via.port,
        username=via.username or None,
        password=via.password if via.username else None,
        rdns=True,
        limit=0,
    )
