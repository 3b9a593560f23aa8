"""Answers of a site that means harm, or is broken as sites are. Each is a whole answer, or a function that gives one."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext

import brotli
import zstandard
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.rough_site import Rough, reply

# What a bomb becomes: a thousand times its own size, and more than any fetcher may hold.
BOMB_BYTES = 64 << 20
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"


def bomb(coding: str) -> bytes:
    packed = {"gzip": _gzip_bomb, "br": _brotli_bomb, "zstd": _zstd_bomb}[coding]()
    assert len(packed) * 900 < BOMB_BYTES
    return reply(packed, content_encoding=coding)


def _gzip_bomb() -> bytes:
    return gzip.compress(bytes(BOMB_BYTES))


def _brotli_bomb() -> bytes:
    return bytes(brotli.compress(bytes(BOMB_BYTES), quality=5))


def _zstd_bomb() -> bytes:
    # A window as large as the bomb: who trusts it holds all of it.
    return zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    ).compress(bytes(BOMB_BYTES))


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(CHUNKED)
    while True:
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def endless_trailers(writer: asyncio.StreamWriter) -> None:
    writer.write(CHUNKED + b"0\r\n")
    await _headers_for_ever(writer)


async def ten_megabytes_of_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        writer.write(f"X-{number}: ".encode() + b"y" * 1000 + b"\r\n")
        await writer.drain()
    writer.write(b"\r\n")


async def one_header_of_ten_megabytes(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(160):
        writer.write(b"y" * 65536)
        await writer.drain()
    writer.write(b"\r\n\r\n")


async def _headers_for_ever(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"X: " + b"y" * 1000 + b"\r\n")
        await writer.drain()


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then: no single wait is long."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 90000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def stall(writer: asyncio.StreamWriter) -> None:
    """Some of the body, and then nothing."""
    writer.write(reply(b"x" * 5000, content_length="90000"))
    await writer.drain()
    await asyncio.Event().wait()


async def truncated_chunk(writer: asyncio.StreamWriter) -> None:
    writer.write(CHUNKED + b"400\r\nonly this")
    await writer.drain()
    writer.close()


async def reset_in_mid_body(writer: asyncio.StreamWriter) -> None:
    writer.write(reply(b"x" * 5000, content_length="90000"))
    await writer.drain()
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def raw(answer: bytes) -> Rough:
    """Just these bytes, and the end of the connection."""

    async def rough(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    return rough


def self_signed(folder: Path) -> SSLContext:
    """A server's TLS that nobody has reason to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hostile.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain = folder / "hostile.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return context
