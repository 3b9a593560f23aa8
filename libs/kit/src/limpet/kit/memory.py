"""Memory of this process: that of its cgroup where it has one with a limit, its own otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
# Version 1 says "no limit" with a number just below 2**63.
_NO_LIMIT = 1 << 60
_V2 = ("memory.current", "memory.max", ("active_file", "inactive_file"))
_V1 = ("memory.usage_in_bytes", "memory.limit_in_bytes", ("total_active_file", "total_inactive_file"))


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use that cannot be reclaimed, and the limit that they must stay below; 0 for none."""

    used: int
    limit: int


def read_memory(process: psutil.Process) -> Memory:
    """A cgroup that is mostly others' says nothing about this process, so there its own memory counts."""
    own = int(process.memory_info().rss)
    found = read_cgroup(CGROUPS, OWN_CGROUPS)
    return found if found is not None and own * 2 >= found.used else Memory(own, 0)


def read_cgroup(root: Path, own: Path) -> Memory | None:
    """The nearest cgroup above this process that has a limit."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    for _, controllers, path in lines:
        if not controllers:
            folder, names = root, _V2
        elif "memory" in controllers.split(","):
            folder, names = root / "memory", _V1
        else:
            continue
        # Inside a container the path may be that of the host, of which only the end is to be seen: the root itself.
        place = folder / path.strip("/")
        for level in (place, *place.parents):
            if (found := _read(level, *names)) is not None:
                return found
            if level == folder:
                break
    return None


def _read(folder: Path, current: str, most: str, caches: tuple[str, str]) -> Memory | None:
    try:
        text = (folder / most).read_text().strip()
        if text == "max" or int(text) >= _NO_LIMIT:
            return None
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used = int((folder / current).read_text()) - sum(int(stat.get(name, 0)) for name in caches)
    except (OSError, ValueError):
        return None
    return Memory(max(0, used), int(text))
