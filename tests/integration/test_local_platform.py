"""The whole local runtime with real servers; the five services are stand-ins that only say that they are ready."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from limpet.cli.errors import StartFailed
from limpet.cli.local import platform as local
from limpet.cli.local.platform import Platform
from limpet.cli.local.ports import free_ports
from limpet.cli.local.runtime import FILE, find_running
from limpet.cli.local.services import Wiring, command
from limpet.cli.local.supervise import Command

STAND_IN = """
import http.server, os, threading

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass

ports = [os.environ[name] for name in ("LIMPET_OPS_PORT", "LIMPET_HTTP_PORT") if name in os.environ]
servers = [http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Ready) for port in ports]
for server in servers:
    threading.Thread(target=server.serve_forever).start()
"""
UP = """
import sys
from tests.integration.test_local_platform import stand_in
from limpet.cli.local import platform
from limpet.cli.main import app
platform.command = stand_in
app(["up", *sys.argv[1:]])
"""
REPOSITORY = Path(__file__).parents[2]


def stand_in(name: str, wiring: Wiring) -> Command:
    return replace(command(name, wiring), argv=(sys.executable, "-c", STAND_IN))


def eventually(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def start_up(data: Path, *words: str) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")}
    return subprocess.Popen(
        [sys.executable, "-c", UP, "--data", str(data), *words],
        cwd=REPOSITORY,
        env={**env, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def is_ready(data: Path) -> bool:
    running = find_running(data)
    return running is not None and running.ready


def test_everything_starts_is_written_down_restarts_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "command", stand_in)
    with Platform(tmp_path, fetchers=2, key="mine") as platform:
        names = {"nats", "postgres", "scheduler-1", "fetcher-1", "fetcher-2", "parser", "proxy-broker", "health"}
        assert set(platform.pids) == names
        file = tmp_path / FILE
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        written = json.loads(file.read_text())
        assert written["url"] == platform.url
        assert written["key"] == "mine"
        assert written["pids"] == platform.pids
        before = platform.pids
        platform.kill("nats", before_restart=lambda: shutil.rmtree(tmp_path / "nats" / "store"))
        platform.kill("parser")
        changed = {"nats", "parser"}
        eventually(lambda: all(platform.pids.get(name, before[name]) != before[name] for name in changed))
        eventually(lambda: json.loads(file.read_text())["pids"] == platform.pids)
        last = platform.pids
    assert all(gone(pid) for pid in last.values())
    assert not file.exists()
    assert find_running(tmp_path) is None


def test_a_service_that_cannot_start_is_named_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, wiring: Wiring) -> Command:
        code = "import sys; print('LIMPET_X: missing'); sys.exit(78)"
        made = stand_in(name, wiring)
        return replace(made, argv=(sys.executable, "-c", code)) if name == "parser" else made

    monkeypatch.setattr(local, "command", broken)
    with pytest.raises(StartFailed, match="parser does not stay up") as failed, Platform(tmp_path):
        pass
    assert "LIMPET_X: missing" in failed.value.message
    assert "parser.log" in failed.value.hint
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_stops_in_order_and_exits_0(tmp_path: Path, number: signal.Signals) -> None:
    port = free_ports(1)[0]
    with start_up(tmp_path, "--port", str(port)) as process:
        assert process.stdout is not None
        said = ""
        # Its last line before it waits; an early end of the process ends its output.
        while "Ctrl-C stops everything" not in said and (line := process.stdout.readline()):
            said += line
        running = find_running(tmp_path)
        process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
        said += rest
    assert process.returncode == 0, said
    assert running is not None
    assert running.key in said
    assert f"http://127.0.0.1:{port}" in said
    stops = [line.removeprefix("stopping ") for line in said.splitlines() if line.startswith("stopping ")]
    assert stops == ["fetcher-1", "parser", "scheduler-1", "proxy-broker", "health", "nats", "postgres"]
    assert all(gone(pid) for pid in running.pids.values())


def test_a_platform_whose_parent_was_killed_can_be_started_again_at_once(tmp_path: Path) -> None:
    pids: set[int] = set()
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        with start_up(tmp_path, "--port", str(free_ports(1)[0])) as process:
            eventually(lambda: is_ready(tmp_path) or process.poll() is not None)
            running = find_running(tmp_path)
            if running is None:
                process.kill()
                pytest.fail(f"it is not running: {process.communicate()}")
            pids |= set(running.pids.values())
            process.send_signal(number)
            process.communicate()
    assert process.returncode == 0
    eventually(lambda: all(gone(pid) for pid in pids))
    assert not Path((tmp_path / "sockets").read_text().strip()).exists()
