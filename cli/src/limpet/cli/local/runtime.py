"""The runtime file: where a running local platform is found, with its key and its processes."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from limpet.cli.errors import StartFailed
from limpet.cli.local.private import write_private

FILE: Final = "limpet.json"
DEFAULT_DATA: Final = Path(".limpet")


@dataclass(frozen=True)
class Runtime:
    """One running platform. `ready` is false while it starts."""

    url: str
    key: str
    pid: int
    data: str
    nats_url: str
    ready: bool = False
    ports: Mapping[str, int] = field(default_factory=dict)
    dsns: Mapping[str, str] = field(default_factory=dict)
    pids: Mapping[str, int] = field(default_factory=dict)

    def write(self) -> None:
        """Keep it in the data folder, readable by its owner only."""
        write_private(Path(self.data) / FILE, json.dumps(asdict(self), indent=2) + "\n")


def find_running(data: Path) -> Runtime | None:
    """The platform that runs on `data`, or None. A file left behind by a killed one does not count."""
    try:
        runtime = Runtime(**json.loads((data / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    # Its successor holds the folder a moment before it removes the file.
    return runtime if in_use(data) and _is_alive(runtime.pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove(data: Path) -> None:
    """Forget the platform of `data`."""
    (data / FILE).unlink(missing_ok=True)


def in_use(data: Path) -> bool:
    """Whether a living process holds `data`."""
    try:
        with (data / "lock").open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def hold(data: Path) -> Iterator[None]:
    """Make `data` ours. The kernel lets go of it when this process ends, however it ends."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(data / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        hint = "Choose another folder with --data DIR."
        raise StartFailed(f"Cannot use the data folder {data}: {error.strerror}.", hint=hint) from error
    try:
        if not _lock(handle):
            running = find_running(data)
            where = f" by the platform at {running.url} (process {running.pid})" if running else ""
            hint = "Use that one, stop it with Ctrl-C, or choose another folder with --data DIR."
            raise StartFailed(f"The data folder {data} is in use{where}.", hint=hint)
        # A killed platform left it behind.
        remove(data)
        ignore = data / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        yield
    finally:
        os.close(handle)


def _lock(handle: int, *, tries: int = 5) -> bool:
    """Take the lock, if need be at the second try: somebody may just be looking whether it is held."""
    for _ in range(tries):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False
