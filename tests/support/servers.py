"""Real servers for the tests: PostgreSQL and NATS from wheels, on free ports, gone when the tests are."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from limpet.cli.local.postgres import Postgres
from limpet.cli.local.supervise import Child

START_SECONDS = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise TimeoutError(f"nothing answers on port {port}")


class NatsProcess:
    """A NATS server with JetStream that can die, lose its store and come back on the same port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._folder = tempfile.mkdtemp(prefix="limpet-nats-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        binary = Path(sys.executable).parent / "nats-server"
        self._process = subprocess.Popen(
            [str(binary), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self._folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_port(self.port, self._process)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wipe(self) -> None:
        """Every stream and consumer is gone; only for a server that does not run."""
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def nats_process(*, port: int = 0) -> Iterator[NatsProcess]:
    """Not started yet."""
    server = NatsProcess(port or free_port())
    try:
        yield server
    finally:
        server.kill()
        server.wipe()


@contextmanager
def nats_server(*, port: int = 0) -> Iterator[str]:
    """A NATS server with JetStream; yields its address."""
    with nats_process(port=port) as server:
        server.start()
        yield server.url


# Tests that crash PostgreSQL use the platform's own settings; all others need it fast.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300", "jit": "off"}


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """The platform's own PostgreSQL, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="limpet-test-pg-"))
    server = replace(Postgres.in_folder(folder, port=free_port()), settings=FAST)
    child = Child(server.command(folder / "log"))
    try:
        child.start()
        deadline = time.monotonic() + START_SECONDS
        while not server.is_ready():
            assert time.monotonic() < deadline, f"PostgreSQL did not become ready: {child.failure}"
            time.sleep(0.05)
        yield server
    finally:
        child.ask_to_stop()
        child.wait_stopped()
        server.remove_sockets()
        shutil.rmtree(folder, ignore_errors=True)
