"""CPU time and memory of a whole process tree, read from /proc."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
MARKER = "BENCH_TREE"


@dataclass(frozen=True)
class Process:
    """A process: its parent, and its CPU seconds with those of its children that have ended."""

    pid: int
    parent: int
    cpu_seconds: float
    ended: bool  # it is a zombie: its CPU still counts here, until its parent has waited for it


def processes() -> dict[int, Process]:
    return {one.pid: one for path in PROC.iterdir() if path.name.isdecimal() and (one := _read(int(path.name)))}


def tree(root: int, *, mark: str = "") -> dict[int, Process]:
    """The process and all below it. Those that left the tree (a daemon) are found by the mark in their environment."""
    everyone = processes()
    children = defaultdict(list)
    for process in everyone.values():
        children[process.parent].append(process.pid)
    waiting = [root, *(pid for pid in everyone if mark and _has_mark(pid, mark))]
    found: dict[int, Process] = {}
    while waiting:
        pid = waiting.pop()
        if pid in everyone and pid not in found:
            found[pid] = everyone[pid]
            waiting.extend(children[pid])
    return found


def cpu_seconds(root: int, *, mark: str = "") -> float:
    """What the tree has used so far. A child that ended counts through the parent that waited for it."""
    return sum(process.cpu_seconds for process in tree(root, mark=mark).values())


def cpu_by_command(root: int, *, mark: str = "") -> dict[str, float]:
    """The same by command, for a first look at where the time goes."""
    used: dict[str, float] = defaultdict(float)
    for process in tree(root, mark=mark).values():
        used[_command(process.pid)] += process.cpu_seconds
    return dict(used)


def memory_mib(root: int, *, mark: str = "") -> float:
    """Proportional memory: pages that several processes share count once."""
    return sum(_memory_kib(pid) for pid in tree(root, mark=mark)) / 1024


class Peak:
    """Samples the memory of a tree in a thread for as long as the block runs."""

    def __init__(self, root: int, *, mark: str = "", every: float = 0.5) -> None:
        self.mib = 0.0
        self._root, self._mark, self._every = root, mark, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        stopped = False
        while not stopped:
            # Once more after the end: the last moments are often the fullest.
            stopped = self._stop.wait(self._every)
            self.mib = max(self.mib, memory_mib(self._root, mark=self._mark))


def _read(pid: int) -> Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None  # it ended while we looked
    # The command's name may hold spaces and brackets; everything after its last bracket is numbers.
    fields = text.rpartition(")")[2].split()
    used = sum(map(int, fields[11:15])) / TICKS
    return Process(pid, parent=int(fields[1]), cpu_seconds=used, ended=fields[0] in "ZX")


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{MARKER}={mark}".encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it ended, or it is not ours to read


def _memory_kib(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _command(pid: int) -> str:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "(ended)"
    names = [Path(word).name for word in words if word and not word.startswith("-")]
    if names and names[0].startswith("python") and len(names) > 1:
        return names[1]
    return names[0].split(":")[0] if names else "(kernel)"
