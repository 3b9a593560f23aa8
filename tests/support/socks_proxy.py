"""A real SOCKS5 proxy on loopback (RFC 1928, CONNECT; RFC 1929, credentials), with a log."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_address

from tests.support.real_proxy import Mood, RealProxy, serving

VERSION, AUTH_VERSION, CONNECT = 5, 1, 1
OPEN, WITH_PASSWORD, NONE_FITS = 0, 2, 0xFF
GRANTED, NOT_ALLOWED, UNREACHABLE, REFUSED, NO_SUCH_COMMAND = 0, 2, 4, 5, 7
IPV4, NAME, IPV6 = 1, 3, 4


class SocksProxy(RealProxy):
    async def speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        version, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        method = WITH_PASSWORD if self.credentials else OPEN
        if version != VERSION or method not in offered or (self.mood is Mood.REFUSE and method == OPEN):
            self.refused.append("")
            writer.write(bytes([VERSION, NONE_FITS]))
            return
        writer.write(bytes([VERSION, method]))
        user = ""
        if method == WITH_PASSWORD:
            user, password = await _credentials(reader)
            if f"{user}:{password}" != self.credentials or self.mood is Mood.REFUSE:
                self.refused.append(user)
                writer.write(bytes([AUTH_VERSION, 1]))
                return
            writer.write(bytes([AUTH_VERSION, 0]))
        _, command, _, kind = await reader.readexactly(4)
        host = await _host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2))
        self.passed(f"{host}:{port}", user)
        if command != CONNECT or self.mood is Mood.FORBID:
            writer.write(_reply(NO_SUCH_COMMAND if command != CONNECT else NOT_ALLOWED))
            return
        try:
            far = await self.dial(host, port)
        except OSError as error:
            writer.write(_reply(REFUSED if isinstance(error, ConnectionRefusedError) else UNREACHABLE))
            return
        writer.write(_reply(GRANTED))
        await self.pass_on(reader, writer, far)


async def _credentials(reader: asyncio.StreamReader) -> tuple[str, str]:
    _, size = await reader.readexactly(2)
    user = await reader.readexactly(size)
    (size,) = await reader.readexactly(1)
    return user.decode(), (await reader.readexactly(size)).decode()


async def _host(reader: asyncio.StreamReader, kind: int) -> str:
    if kind == NAME:
        (size,) = await reader.readexactly(1)
        return (await reader.readexactly(size)).decode()
    return str(ip_address(await reader.readexactly(4 if kind == IPV4 else 16)))


def _reply(code: int) -> bytes:
    return bytes([VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0])


def socks_proxy(*, credentials: str = "") -> AbstractAsyncContextManager[SocksProxy]:
    """`credentials` is `user:password`, or empty for a proxy that anybody may use."""
    return serving(SocksProxy(credentials=credentials))
