"""Connections for the HTTP/2 client: to addresses that the guard lets through, or through a proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import python_socks
from aiohttp.abc import AbstractResolver
from aiohttp_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError
from python_socks import ProxyType
from python_socks.async_.asyncio import Proxy

from limpet.fetcher.via import SOCKS5, Via


async def _through_socks(via: Via, host: str, port: int) -> socket.socket:
    """The proxy resolves names. It fails as the other client's SOCKS connections do."""
    user, password = (via.username, via.password) if via.username else (None, None)
    try:
        return await Proxy(ProxyType.SOCKS5, via.host, via.port, user, password, True).connect(host, port)
    except python_socks.ProxyTimeoutError as error:
        raise ProxyTimeoutError(str(error)) from error
    except python_socks.ProxyConnectionError as error:
        raise ProxyConnectionError(str(error)) from error
    except python_socks.ProxyError as error:
        raise ProxyError(str(error), error_code=error.error_code) from error


class ProxyUnreachable(Exception):
    """Nothing was sent: the proxy itself did not take the connection."""


class Stream(httpcore.AsyncNetworkStream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def is_over(self) -> bool:
        """The other side has hung up."""
        return self._reader.at_eof() or self._reader.exception() is not None or self._writer.is_closing()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        async with asyncio.timeout(timeout):
            return await self._reader.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        async with asyncio.timeout(timeout):
            self._writer.write(buffer)
            await self._writer.drain()

    async def aclose(self) -> None:
        # A site that does not answer the farewell of TLS would keep us here.
        self._writer.transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Stream:
        async with asyncio.timeout(timeout):
            await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        return self

    def get_extra_info(self, info: str) -> Any:
        return self.is_over if info == "is_readable" else self._writer.get_extra_info(info)


class Wire(httpcore.AsyncNetworkBackend):
    """One origin's connections, so that whoever kept them can tell whether they are still good."""

    def __init__(self, via: Via | None, resolver: AbstractResolver) -> None:
        self._via = via
        self._resolver = resolver
        self._streams: list[Stream] = []

    @property
    def is_over(self) -> bool:
        return any(stream.is_over for stream in self._streams)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> Stream:
        async with asyncio.timeout(timeout):
            reader, writer = await self._open(host, port)
        stream = Stream(reader, writer)
        self._streams = [*(one for one in self._streams if not one.is_over), stream]
        return stream

    async def _open(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        via = self._via
        if via is None:
            return await self._open_checked(host, port)
        if via.protocol == SOCKS5:
            return await asyncio.open_connection(sock=await _through_socks(via, host, port))
        try:
            return await asyncio.open_connection(via.host, via.port)
        except OSError as error:
            raise ProxyUnreachable from error

    async def _open_checked(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """What is connected to is the address that was checked."""
        found = await self._resolver.resolve(host, port)
        failed: OSError = OSError(f"{host} has no address")
        for result in found:
            try:
                return await asyncio.open_connection(result["host"], port)
            except OSError as error:
                failed = error
        raise failed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
