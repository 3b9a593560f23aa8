"""Start a process for a measurement, wait for it within a limit, and leave none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from bench.measure import MARKER, tree

ROOT = Path(__file__).parents[1]
STOP_SECONDS = 45.0
KILL_SECONDS = 10.0


class BenchError(RuntimeError):
    """The measurement cannot go on; the message says why and where to look."""


@contextmanager
def started(command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Run the command with its output in `log`; at the end, stop it and whatever of it is left."""
    mark = uuid4().hex
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=output, env={**os.environ, **(env or {}), MARKER: mark}
        )
    running = Running(process, mark=mark, log=log)
    try:
        yield running
    finally:
        running.stop()


class Running:
    """A started process and everything below it."""

    def __init__(self, process: subprocess.Popen[bytes], *, mark: str, log: Path) -> None:
        self.pid = process.pid
        self.mark = mark
        self._process = process
        self._log = log

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def first_line(self, *, seconds: float) -> str:
        """Wait for the first whole line that the process writes."""
        deadline = time.monotonic() + seconds
        while "\n" not in (text := self.output()):
            self.check(deadline=deadline, doing="to start")
            time.sleep(0.05)
        return text.splitlines()[0]

    def check(self, *, deadline: float, doing: str) -> None:
        """Fail if the process has ended or the time is up."""
        if self._process.poll() is not None:
            raise BenchError(f"it ended by itself while it was {doing}: {self._last_words()}")
        if time.monotonic() > deadline:
            raise BenchError(f"it took too long {doing}: {self._last_words()}")

    def wait(self, *, seconds: float) -> float:
        """Wait for its end and return the CPU seconds of the process and of the children that it waited for."""
        deadline = time.monotonic() + seconds
        while True:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() > deadline:
                raise BenchError(f"it took too long to finish: {self._last_words()}")
            time.sleep(0.05)
        if self._process.returncode != 0:
            raise BenchError(f"it failed with exit code {self._process.returncode}: {self._last_words()}")
        return used.ru_utime + used.ru_stime

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        deadline = time.monotonic() + KILL_SECONDS
        while (left := self._left()) and time.monotonic() < deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._process.wait()

    def _left(self) -> list[int]:
        """What carries our mark or hangs below our process and still runs."""
        return [one.pid for one in tree(self.pid, mark=self.mark).values() if not one.ended]

    def _last_words(self) -> str:
        return "\n" + "\n".join(self.output().splitlines()[-15:])
