"""The local runtime's own servers: real NATS, real PostgreSQL, killed and back again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import nats
import pytest

from limpet.cli.local.nats import Nats
from limpet.cli.local.ports import free_ports
from limpet.cli.local.postgres import Postgres
from limpet.cli.local.services import DATABASES
from limpet.cli.local.supervise import Supervisor


def eventually(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor()
    yield made
    made.stop([["nats"], ["postgres"]])


@pytest.fixture
def queue(supervisor: Supervisor, tmp_path: Path) -> Nats:
    server = Nats.in_folder(tmp_path, port=free_ports(1)[0])
    supervisor.start(server.command(tmp_path / "logs" / "nats.log"))
    eventually(server.is_ready)
    return server


@pytest.fixture
def store(supervisor: Supervisor, tmp_path: Path) -> Iterator[Postgres]:
    server = Postgres.in_folder(tmp_path, port=free_ports(1)[0])
    supervisor.start(server.command(tmp_path / "logs" / "postgres.log"))
    eventually(server.is_ready)
    server.create_databases(DATABASES)
    yield server
    supervisor.stop([["postgres"]])
    server.remove_sockets()


def kill_and_await(supervisor: Supervisor, name: str, ready: Callable[[], bool]) -> None:
    before = supervisor.pids()[name]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: supervisor.pids().get(name, before) != before and ready())


async def test_postgres_comes_back_after_kill_9_with_what_was_committed(
    supervisor: Supervisor, store: Postgres
) -> None:
    conn = await asyncpg.connect(store.dsn("limpet_scheduler"))
    await conn.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    kill_and_await(supervisor, "postgres", store.is_ready)
    conn.terminate()
    conn = await asyncpg.connect(store.dsn("limpet_scheduler"))
    assert await conn.fetchval("SELECT answer FROM kept") == 42
    await conn.close()


async def test_postgres_runs_with_our_settings_and_the_five_databases(store: Postgres) -> None:
    conn = await asyncpg.connect(store.dsn("limpet_health"))
    shown = {name: await conn.fetchval(f"SHOW {name}") for name in ("shared_buffers", "synchronous_commit", "jit")}
    assert shown == {"shared_buffers": "256MB", "synchronous_commit": "on", "jit": "off"}
    present = {row["datname"] for row in await conn.fetch("SELECT datname FROM pg_database")}
    assert set(DATABASES) <= present
    await conn.close()
    store.create_databases(DATABASES)


async def test_postgres_refuses_a_wrong_password_on_socket_and_port(store: Postgres) -> None:
    for host in (str(store.sockets), "127.0.0.1"):
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(host=host, port=store.port, user="limpet", password="wrong", database="postgres")
    conn = await asyncpg.connect(
        host="127.0.0.1", port=store.port, user="limpet", password=store.password, database="postgres"
    )
    await conn.close()


async def test_nats_comes_back_after_kill_9_with_what_was_acked(supervisor: Supervisor, queue: Nats) -> None:
    link = await nats.connect(queue.url)
    await link.jetstream().add_stream(name="KEPT", subjects=["kept"])
    await link.jetstream().publish("kept", b"x" * 3_000_000)
    await link.close()
    kill_and_await(supervisor, "nats", queue.is_ready)
    link = await nats.connect(queue.url)
    info = await link.jetstream().stream_info("KEPT")
    assert info.state.messages == 1
    await link.close()


async def test_a_wiped_nats_store_comes_back_empty(supervisor: Supervisor, queue: Nats) -> None:
    link = await nats.connect(queue.url)
    await link.jetstream().add_stream(name="GONE", subjects=["gone"])
    await link.close()
    before = supervisor.pids()["nats"]
    supervisor.children["nats"].kill(before_restart=lambda: shutil.rmtree(queue.store))
    eventually(lambda: supervisor.pids().get("nats", before) != before and queue.is_ready())
    link = await nats.connect(queue.url)
    assert await link.jetstream().streams_info() == []
    await link.close()


def test_nats_refuses_those_without_the_password(queue: Nats) -> None:
    # By hand: the client library leaves its socket open when it is refused.
    with socket.create_connection(("127.0.0.1", queue.port), timeout=5.0) as link, link.makefile("rb") as lines:
        assert lines.readline().startswith(b"INFO ")
        link.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        assert b"Authorization Violation" in lines.readline()


def test_passwords_are_readable_by_their_owner_only(queue: Nats, tmp_path: Path) -> None:
    for file in (queue.folder / "nats.conf", tmp_path / "secrets" / "nats-password"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
