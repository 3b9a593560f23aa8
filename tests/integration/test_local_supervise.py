"""Children come back when they die, go in order when asked, and never outlive their parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from limpet.cli.errors import StartFailed
from limpet.cli.local import runtime
from limpet.cli.local.platform import Platform
from limpet.cli.local.ports import LOOPBACK
from limpet.cli.local.supervise import Command, Supervisor

SLEEPER = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
)
PARENT = """
import signal, sys
from pathlib import Path
from limpet.cli.local.supervise import Command, Supervisor
supervisor = Supervisor()
code = "import signal; signal.pause()"
supervisor.start(Command(name="one", argv=(sys.executable, "-c", code), log=Path(sys.argv[1])))
print(supervisor.pids()["one"], flush=True)
signal.pause()
"""


def eventually(condition: Callable[[], bool], *, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor()
    yield made
    made.stop([list(made.children)])


def python(name: str, code: str, folder: Path, *, grace: float = 5.0) -> Command:
    return Command(name=name, argv=(sys.executable, "-c", code), log=folder / f"{name}.log", grace_seconds=grace)


def is_up(folder: Path, name: str, *, times: int = 1) -> Callable[[], bool]:
    return lambda: (folder / f"{name}.log").read_text().count("up") == times


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_killed_child_comes_back(supervisor: Supervisor, tmp_path: Path) -> None:
    child = supervisor.start(python("one", SLEEPER, tmp_path))
    first = supervisor.pids()["one"]
    eventually(is_up(tmp_path, "one"))
    os.kill(first, signal.SIGKILL)
    eventually(is_up(tmp_path, "one", times=2))
    assert supervisor.pids()["one"] != first
    assert child.last_exit == -signal.SIGKILL


def test_a_stopped_child_stays_away(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.start(python("one", SLEEPER, tmp_path))
    pid = supervisor.pids()["one"]
    eventually(is_up(tmp_path, "one"))
    supervisor.stop([["one"]])
    assert gone(pid)
    assert supervisor.pids() == {}


def test_children_stop_group_by_group(supervisor: Supervisor, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        supervisor.start(python(name, SLEEPER, tmp_path))
    pids = supervisor.pids()
    alive: list[tuple[str, set[str]]] = []
    supervisor.stop(
        [["three"], ["one"], ["two"], ["never-started"]],
        on_stopping=lambda name: alive.append((name, {other for other, pid in pids.items() if not gone(pid)})),
    )
    assert alive == [("three", {"one", "two", "three"}), ("one", {"one", "two"}), ("two", {"two"})]


def test_a_child_that_will_not_stop_is_killed_after_the_grace(supervisor: Supervisor, tmp_path: Path) -> None:
    child = supervisor.start(python("one", STUBBORN, tmp_path, grace=0.3))
    eventually(is_up(tmp_path, "one"))
    supervisor.stop([["one"]])
    assert child.last_exit == -signal.SIGKILL


def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "one.log")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # The tether is tied once the child has become what it was asked to be.
        eventually(lambda: "tether.py" not in " ".join(psutil.Process(pid).cmdline()))
        parent.kill()
    eventually(lambda: gone(pid))


def test_a_data_folder_in_use_is_refused(tmp_path: Path) -> None:
    with (
        runtime.hold(tmp_path),
        pytest.raises(StartFailed, match="in use") as refused,
        Platform(tmp_path),
    ):
        pass
    assert "--data" in refused.value.hint


def test_a_busy_port_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as busy:
        port = int(busy.getsockname()[1])
        with pytest.raises(StartFailed, match=f"Port {port}") as refused, Platform(tmp_path, port=port):
            pass
    assert "--port" in refused.value.hint
    assert not runtime.in_use(tmp_path)


def test_a_runtime_file_left_by_a_killed_platform_does_not_count(tmp_path: Path) -> None:
    known = runtime.Runtime(url="http://x", key="k", pid=1, data=str(tmp_path), nats_url="nats://x", ready=True)
    known.write()
    assert (tmp_path / runtime.FILE).stat().st_mode & 0o777 == 0o600
    assert runtime.find_running(tmp_path) is None
    with runtime.hold(tmp_path):
        assert not (tmp_path / runtime.FILE).exists()
        known.write()
        assert runtime.find_running(tmp_path) == known
