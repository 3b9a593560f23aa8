"""The bench counts every process of a tree, also those that ended and those that left it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.measure import MARKER, Peak, cpu_by_command, cpu_seconds, memory_mib, tree
from bench.running import BenchError, started

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
READY = "print('ready', flush=True); import time; time.sleep(60)"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_the_cpu_of_a_child_that_ended_counts(log: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}]); {READY}"
    with started([sys.executable, "-c", code], log=log) as process:
        process.first_line(seconds=20)
        assert cpu_seconds(process.pid) >= 0.29


def test_the_cpu_of_a_child_that_still_runs_counts(log: Path) -> None:
    child = BURN + READY
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with started([sys.executable, "-c", code], log=log) as process:
        process.first_line(seconds=20)
        assert len(tree(process.pid)) == 2
        assert cpu_seconds(process.pid) >= 0.29
        assert sum(cpu_by_command(process.pid).values()) >= 0.29


def test_a_process_that_left_the_tree_is_found_by_its_mark_and_stopped(log: Path) -> None:
    code = f"import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\n{READY}"
    with started([sys.executable, "-c", code], log=log) as process:
        deadline = time.monotonic() + 20
        while "ready" not in process.output():
            assert time.monotonic() < deadline
        orphan = int(process.output().split()[0])
        assert orphan in tree(process.pid, mark=process.mark)
    assert all(one.ended for one in tree(orphan).values())


def test_memory_is_that_of_the_whole_tree_at_its_peak(log: Path) -> None:
    child = f"hold = bytes(1) * 60_000_000\n{READY}"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with started([sys.executable, "-c", code], log=log) as process, Peak(process.pid, every=0.05) as peak:
        process.first_line(seconds=20)
        assert memory_mib(process.pid) > 57
    assert peak.mib > 57


def test_a_process_that_fails_is_reported_with_its_last_words(log: Path) -> None:
    with (
        started([sys.executable, "-c", "raise SystemExit('no luck today')"], log=log) as process,
        pytest.raises(BenchError, match="no luck today"),
    ):
        process.wait(seconds=20)


def test_another_process_without_the_mark_is_left_alone() -> None:
    other = subprocess.Popen([sys.executable, "-c", READY], stdout=subprocess.DEVNULL, env={**os.environ, MARKER: "x"})
    try:
        assert other.pid not in tree(other.pid + 10**7, mark="y")
        assert other.pid in tree(other.pid + 10**7, mark="x")
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
