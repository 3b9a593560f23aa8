"""Child processes that come back when they die, and go in order when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from limpet.cli.errors import CliError

TETHER: Final = Path(__file__).with_name("tether.py")
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 5.0
# A child that lived this long was well; its next death starts from the first pause again.
WELL_AFTER_SECONDS: Final = 10.0


def nothing() -> None:
    """The default of every hook."""


@dataclass(frozen=True)
class Command:
    """One process to run: what, as whom, where it logs, and how it likes to be stopped."""

    name: str
    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL
    grace_seconds: float = 20.0
    prepare: Callable[[], None] = nothing


class Child:
    """One supervised process. Its thread starts it, waits for it and starts it again.

    The thread lives as long as the process: the kernel's death signal follows the thread that forked.
    """

    def __init__(self, command: Command, *, on_change: Callable[[], None] = nothing) -> None:
        self.command = command
        self.restarts = 0
        self.last_exit: int | None = None
        self.failure: OSError | CliError | None = None
        self._on_change = on_change
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._spawned = threading.Event()
        self._before_restart: Callable[[], None] = nothing
        self._thread = threading.Thread(target=self._keep_alive, name=command.name, daemon=True)

    def start(self) -> None:
        """Start the process and keep it alive from now on."""
        self._thread.start()
        self._spawned.wait()

    @property
    def pid(self) -> int | None:
        """The process id, or None while there is no process."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def kill(self, *, before_restart: Callable[[], None] = nothing) -> None:
        """Kill the process as a crash would. `before_restart` runs once while it is down."""
        self._before_restart = before_restart
        self._signal(signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """Send the stop signal; it will not be started again."""
        self._stopping.set()
        self._signal(self.command.stop_signal)

    def wait_stopped(self) -> None:
        """Wait for the end; after the grace, end it."""
        self._thread.join(self.command.grace_seconds)
        if self._thread.is_alive():
            self._signal(signal.SIGKILL)
            self._thread.join()

    def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            started = time.monotonic()
            self.failure = None
            try:
                self._live()
            except (OSError, CliError) as error:
                self.failure = error
            finally:
                self._spawned.set()
            if time.monotonic() - started > WELL_AFTER_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            if not self._stopping.wait(pause):
                self.restarts += 1
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
                hook, self._before_restart = self._before_restart, nothing
                hook()

    def _live(self) -> None:
        """One life of the process, from start to death."""
        self._process = self._spawn()
        self._spawned.set()
        self._on_change()
        if self._stopping.is_set():
            # Asked to stop while it was being started: the signal found no process.
            self._signal(self.command.stop_signal)
        self.last_exit = self._process.wait()
        # What it started itself must not outlive it: its successor starts the same again.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._on_change()

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = self.command
        command.prepare()
        command.log.parent.mkdir(parents=True, exist_ok=True)
        tether = [
            sys.executable,
            "-I",
            "-S",
            str(TETHER),
            str(int(command.death_signal)),
            str(os.getpid()),
            command.user,
        ]
        with command.log.open("ab") as log:
            return subprocess.Popen(
                [*tether, *command.argv],
                env=dict(command.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own session: Ctrl-C in the terminal reaches only us, and we stop everything in order.
                start_new_session=True,
            )

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if number is signal.SIGKILL:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        process.send_signal(number)


class Supervisor:
    """All children of one platform, by name."""

    def __init__(self, *, on_change: Callable[[], None] = nothing) -> None:
        self.children: dict[str, Child] = {}
        self._on_change = on_change

    def start(self, command: Command) -> Child:
        """Start one more child."""
        child = Child(command, on_change=self._on_change)
        self.children[command.name] = child
        child.start()
        return child

    def pids(self) -> dict[str, int]:
        """The process ids of all that are running now."""
        pids = {name: child.pid for name, child in list(self.children.items())}
        return {name: pid for name, pid in pids.items() if pid is not None}

    def stop(self, groups: list[list[str]], *, on_stopping: Callable[[str], None] = lambda _: None) -> None:
        """Stop group after group; the members of a group together. Names that never started are skipped."""
        for group in groups:
            members = [self.children[name] for name in group if name in self.children]
            for child in members:
                on_stopping(child.command.name)
                child.ask_to_stop()
            for child in members:
                child.wait_stopped()
                self.children.pop(child.command.name, None)
