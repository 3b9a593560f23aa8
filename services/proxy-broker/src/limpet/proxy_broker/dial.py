"""Dial a proxy as a fetcher would: connect, log in and, where a target is given, go through to it."""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass, field
from typing import Final

HEAD_BYTES: Final = 16 << 10
_VERSION: Final = 5
_NO_LOGIN: Final = 0
_LOGIN: Final = 2
_CONNECT: Final = b"\x05\x01\x00\x03"
# What follows the kind of address in a SOCKS5 answer; a name says its own length.
_ADDRESS_BYTES: Final = {1: 4, 4: 16}


class DialFailed(Exception):
    """The proxy answered, and not as it should. The message never holds what it said or what we sent."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a proxy is and how to log in."""

    protocol: str
    host: str
    port: int
    username: str
    password: str = field(repr=False)


async def dial(address: Address, *, target: str, tls: ssl.SSLContext) -> None:
    """Return if the proxy is well; raise OSError, EOFError or DialFailed if not. The caller sets the time limit."""
    secure = tls if address.protocol == "https" else None
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=secure, limit=HEAD_BYTES)
    try:
        if address.protocol == "socks5":
            await _socks(reader, writer, address, target)
        elif target:
            await _connect(reader, writer, address, target)
    finally:
        writer.transport.abort()  # all is said: no farewell to wait for


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address, target: str) -> None:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if address.username or address.password:
        login = base64.b64encode(f"{address.username}:{address.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {login}")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        status = (await reader.readuntil(b"\r\n")).split()
    except asyncio.LimitOverrunError:
        raise DialFailed("no HTTP answer") from None
    if len(status) < 2 or not status[0].startswith(b"HTTP/1."):
        raise DialFailed("no HTTP answer")
    if not status[1].startswith(b"2"):
        raise DialFailed("credentials refused" if status[1] == b"407" else "target refused")


async def _socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address, target: str) -> None:
    name, password = address.username.encode(), address.password.encode()
    with_login = bool(name or password)
    writer.write(bytes((_VERSION, 1, _LOGIN if with_login else _NO_LOGIN)))
    version, method = await reader.readexactly(2)
    if version != _VERSION:
        raise DialFailed("no SOCKS5 answer")
    if method != (_LOGIN if with_login else _NO_LOGIN):
        raise DialFailed("credentials refused")
    if with_login:
        if len(name) > 255 or len(password) > 255:
            raise DialFailed("credentials too long for SOCKS5")
        writer.write(bytes((1, len(name))) + name + bytes((len(password),)) + password)
        if (await reader.readexactly(2))[1] != 0:
            raise DialFailed("credentials refused")
    if target:
        await _socks_connect(reader, writer, target)


async def _socks_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
    host, _, port = target.rpartition(":")
    name = host.strip("[]").encode("idna")
    writer.write(_CONNECT + bytes((len(name),)) + name + int(port).to_bytes(2, "big"))
    version, answer, _, kind = await reader.readexactly(4)
    if version != _VERSION or answer != 0:
        raise DialFailed("target refused")
    length = _ADDRESS_BYTES[kind] if kind in _ADDRESS_BYTES else (await reader.readexactly(1))[0]
    await reader.readexactly(length + 2)
