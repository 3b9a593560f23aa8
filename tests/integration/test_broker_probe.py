"""Proxies that come back: the broker dials them itself, through real sockets, before a fetcher may try them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from limpet.proxy_broker.dial import Address, DialFailed, dial
from limpet.proxy_broker.lease import Grant
from limpet.proxy_broker.store import proxies
from tests.conftest import PoolFactory
from tests.support.brokering import VAULT, Brokering
from tests.support.forward_proxy import forward_proxy
from tests.support.servers import free_port
from tests.support.waiting import until

SECRET = "pa55:w0rd"
PLAIN_TLS = ssl.create_default_context()

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def broker(pool_of: PoolFactory) -> Brokering:
    return Brokering(await pool_of("limpet.proxy_broker"))


@asynccontextmanager
async def listener(
    serve: Serve | None = None, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A socket that listens on loopback for as long as the block lasts."""
    writers: list[asyncio.StreamWriter] = []
    running: set[asyncio.Task[None]] = set()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            if serve is not None:
                await serve(reader, writer)
            await reader.read()
        writer.transport.abort()

    # Not a coroutine: one that is cancelled before its first step would leave its connection open.
    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        running.add(asyncio.create_task(speak(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def socks(*, login: bytes = b"", reach: bool = True) -> Serve:
    """A SOCKS5 server that wants this `user:password`, or nothing, and reaches its targets or not."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        method = 2 if login else 0
        writer.write(bytes((5, method if method in offered else 0xFF)))
        if login:
            _, length = await reader.readexactly(2)
            name = await reader.readexactly(length)
            password = await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(b"\x01\x00" if name + b":" + password == login else b"\x01\x01")
        _, _, _, kind = await reader.readexactly(4)
        assert kind == 3
        await reader.readexactly((await reader.readexactly(1))[0] + 2)
        writer.write(b"\x05" + (b"\x00" if reach else b"\x05") + b"\x00\x01\x7f\x00\x00\x01\x00\x50")

    return serve


def at(port: int, *, protocol: str = "http", username: str = "", password: str = "") -> Address:
    return Address(protocol=protocol, host="127.0.0.1", port=port, username=username, password=password)


async def test_b4_a_dead_proxy_is_disabled_probed_and_returns_when_it_recovers(broker: Brokering) -> None:
    port = free_port()
    proxy_id = await broker.add(host="127.0.0.1", port=port)
    await broker.use("proxy_failed", proxy_id, times=10)
    before = await broker.proxy(proxy_id)
    assert before["cooling"]
    assert await broker.prober.probe() == 0, "its cool-down is not over"

    for relapses in (2, 3):  # still dead: each probe makes the wait longer, and nobody is blamed
        await broker.one("UPDATE proxies SET cooling_until = now()")
        assert await broker.prober.probe() == 1
        ill = await broker.proxy(proxy_id)
        assert ill["relapses"] == relapses
        wait = ill["cooling_until"] - ill["relapsed_at"]
        assert wait == timedelta(hours=2 ** (relapses - 1))
        for column in ("failure_count", "consecutive_failures", "success_count", "last_failure_at"):
            assert ill[column] == before[column]
        [refusal] = await broker.lease("other.test")
        assert not isinstance(refusal, Grant)

    async with listener(port=port):
        await broker.one("UPDATE proxies SET cooling_until = now()")
        with capture_logs() as logs:
            assert await broker.prober.probe() == 1
    assert [line["event"] for line in logs] == ["proxies_back"]
    assert (await broker.proxy(proxy_id))["cooling_until"] is None
    reasons = await broker.pool.fetch("SELECT active, reason FROM changes ORDER BY change_id")
    assert [tuple(row) for row in reasons] == [(False, "failures"), (True, "cooldown_over")]

    answers = await broker.lease("a.test", "b.test")  # half open: one at a time
    grants = [answer for answer in answers if isinstance(answer, Grant)]
    assert len(grants) == 1
    await broker.report("success", grants[0].lease_id)
    answers = await broker.lease("a.test", "b.test")
    assert all(isinstance(answer, Grant) for answer in answers)


async def test_b4_two_brokers_never_dial_the_same_proxy_at_once(broker: Brokering) -> None:
    dialled: list[int] = []

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.append(1)
        writer.close()

    async with listener(count) as port:
        for n in range(5):
            await broker.add(host="127.0.0.1", port=port, username=str(n))
        await broker.one("UPDATE proxies SET cooling_until = now()")
        other = Brokering(broker.pool)
        found = await asyncio.gather(*[one.prober.probe() for one in (broker, other, broker, other)])

        async def all_came() -> bool:
            return len(dialled) >= 5

        await until(all_came)
    assert (sum(found), len(dialled)) == (5, 5)


async def test_b4_an_operators_decision_during_a_probe_stands(broker: Brokering) -> None:
    reached, answer = asyncio.Event(), asyncio.Event()

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await answer.wait()
        writer.close()

    async with listener(slow) as port:
        proxy_id = await broker.add(host="127.0.0.1", port=port, protocol="socks5")
        await broker.one("UPDATE proxies SET cooling_until = now()")
        probing = asyncio.create_task(broker.prober.probe())
        async with asyncio.timeout(10):
            await reached.wait()
        async with broker.pool.acquire() as conn:
            await proxies.enable(conn, proxy_id=proxy_id)
        answer.set()
        assert await probing == 1
    row = await broker.proxy(proxy_id)
    assert (row["cooling_until"], row["relapses"]) == (None, 0)


async def test_b4_a_proxy_that_a_person_disabled_is_not_dialled(broker: Brokering) -> None:
    proxy_id = await broker.add()
    async with broker.pool.acquire() as conn:
        await proxies.disable(conn, proxy_id=proxy_id)
    await broker.one("UPDATE proxies SET cooling_until = now()")
    assert await broker.prober.probe() == 0
    assert (await broker.proxy(proxy_id))["operator_disabled"]


async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()


async def test_b4_a_refused_login_is_a_failed_probe_and_its_credentials_stay_secret(broker: Brokering) -> None:
    async with listener(refusing) as http, listener(socks(login=b"me:right")) as port:
        for protocol, where in (("http", http), ("socks5", port)):
            proxy_id = await broker.add(host="127.0.0.1", port=where, protocol=protocol, username="me")
            async with broker.pool.acquire() as conn:
                await proxies.set_password(conn, proxy_id=proxy_id, sealed=VAULT.seal(SECRET, proxy_id=proxy_id))
        await broker.one("UPDATE proxies SET cooling_until = now()")
        prober = replace(broker.prober, target=f"127.0.0.1:{http}")
        with capture_logs() as logs:
            assert await prober.probe() == 2
    assert [line["reason"] for line in logs if line["event"] == "probe_failed"] == ["credentials refused"] * 2
    assert SECRET not in repr(logs)
    assert await broker.one("SELECT count(*) FROM proxies WHERE cooling_until > now() + interval '50 minutes'") == 2
    assert await broker.one("SELECT sum(failure_count + consecutive_failures) FROM proxies") == 0


async def test_b4_a_probe_that_hangs_ends_in_time(broker: Brokering) -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listener(silent) as port:
        await broker.add(host="127.0.0.1", port=port, protocol="socks5")
        await broker.one("UPDATE proxies SET cooling_until = now()")
        with capture_logs() as logs:
            assert await replace(broker.prober, timeout=timedelta(seconds=0.05)).probe() == 1
    assert [line["reason"] for line in logs] == ["timeout"]


async def test_dialling_http_with_a_target_goes_through_to_it() -> None:
    left = asyncio.Event()

    async def site(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read()
        left.set()

    async with forward_proxy(credentials="me:right") as proxy, listener(site) as port:
        target = f"127.0.0.1:{port}"
        await dial(at(proxy.port, username="me", password="right"), target=target, tls=PLAIN_TLS)
        assert proxy.seen == [target]
        async with asyncio.timeout(10):
            await left.wait()


async def test_dialling_http_without_a_target_only_connects() -> None:
    async with listener(refusing) as port:
        await dial(at(port, username="me", password=SECRET), target="", tls=PLAIN_TLS)
        with pytest.raises(DialFailed, match="credentials refused"):
            await dial(at(port, username="me", password=SECRET), target="site.test:443", tls=PLAIN_TLS)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 502 Bad Gateway\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"\r\n", b"x" * 100_000 + b"\r\n"]
)
async def test_dialling_what_is_no_proxy_fails(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with listener(serve) as port:
        with pytest.raises(DialFailed):
            await dial(at(port), target="site.test:443", tls=PLAIN_TLS)


@pytest.mark.parametrize(
    ("login", "reach", "username", "password", "works"),
    [
        (b"", True, "", "", True),
        (b"me:right", True, "me", "right", True),
        (b"me:right", True, "me", SECRET, False),
        (b"me:right", True, "", "", False),
        (b"", False, "", "", False),
    ],
)
async def test_dialling_socks5_greets_logs_in_and_goes_through(
    login: bytes, username: str, password: str, *, reach: bool, works: bool
) -> None:
    async with listener(socks(login=login, reach=reach)) as port:
        address = at(port, protocol="socks5", username=username, password=password)
        if works:
            await dial(address, target="site.test:443", tls=PLAIN_TLS)
        else:
            with pytest.raises(DialFailed):
                await dial(address, target="site.test:443", tls=PLAIN_TLS)


def certified(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's side of a certificate of this moment."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=str(path))


async def test_dialling_https_shakes_hands_and_checks_the_certificate(tmp_path: Path) -> None:
    server, client = certified(tmp_path)
    async with listener(tls=server) as port:
        address = replace(at(port, protocol="https"), host="localhost")
        await dial(address, target="", tls=client)
        with pytest.raises(ssl.SSLCertVerificationError):
            await dial(address, target="", tls=PLAIN_TLS)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"not a handshake\r\n")
        await writer.drain()

    async with listener(greet) as port:
        with pytest.raises(ssl.SSLError):
            await dial(at(port, protocol="https"), target="", tls=client)
