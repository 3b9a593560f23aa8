"""The whole platform on one machine: start in order, wait until ready, stop in order."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from limpet.cli.errors import StartFailed
from limpet.cli.local import runtime
from limpet.cli.local.nats import Nats
from limpet.cli.local.ports import LOOPBACK, free_ports, is_free, is_open
from limpet.cli.local.postgres import Postgres
from limpet.cli.local.private import keep_private
from limpet.cli.local.services import DATABASES, Shape, Wiring, command
from limpet.cli.local.supervise import Child, Supervisor, nothing

READY_WITHIN_SECONDS: Final = 90.0
LOOK_EVERY_SECONDS: Final = 0.05
# The exit code of a service that was given settings it cannot use: starting it again cannot help.
WRONG_SETTINGS: Final = 78
TOO_MANY_RESTARTS: Final = 5

OnStep = Callable[[str, str], None]


def unwatched(_name: str, _state: str) -> None:
    """The default watcher: nobody looks."""


class Platform:
    """NATS, PostgreSQL and the five services as child processes. `with Platform(data) as platform: ...`

    `on_step(name, state)` is told how the start and the stop go: `starting`, `waiting for ...`, `ready`, `stopping`.
    """

    def __init__(
        self,
        data: Path,
        *,
        fetchers: int = 1,
        schedulers: int = 1,
        port: int = 0,
        key: str = "",
        env: dict[str, str] | None = None,
        own_env: Mapping[str, Mapping[str, str]] | None = None,
        on_step: OnStep = unwatched,
    ) -> None:
        self.data = data.absolute()
        self._shape = Shape(fetchers=fetchers, schedulers=schedulers, port=port)
        self._key = key
        self._env = {**os.environ, **(env or {})}
        self._own_env = own_env or {}
        self._on_step = on_step
        self._supervisor = Supervisor(on_change=self._write_runtime)
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._runtime: runtime.Runtime | None = None
        self._ready = False

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def runtime(self) -> runtime.Runtime:
        """Address, key, ports, dsns, and the process ids as of now."""
        if self._runtime is None:
            raise StartFailed("The platform has not been started.")
        known = vars(self._runtime) | {"ready": self._ready, "pids": self._supervisor.pids()}
        return runtime.Runtime(**known)

    @property
    def url(self) -> str:
        return self.runtime.url

    @property
    def key(self) -> str:
        return self.runtime.key

    @property
    def pids(self) -> dict[str, int]:
        """The process ids by name: nats, postgres, scheduler-1, fetcher-1, parser, proxy-broker, health."""
        return self._supervisor.pids()

    def child(self, name: str) -> Child:
        """One supervised process."""
        return self._supervisor.children[name]

    def kill(self, name: str, *, before_restart: Callable[[], None] = nothing) -> None:
        """Kill -9 one process; it is started again. `before_restart` runs while it is down."""
        self.child(name).kill(before_restart=before_restart)

    def stop(self) -> None:
        """Stop everything in order. Safe to call twice, and after half a start."""
        self._ready = False
        self._supervisor.stop(self._shape.stop_order(), on_stopping=lambda name: self._on_step(name, "stopping"))
        self._stack.close()

    def _start(self) -> None:
        self._stack.enter_context(runtime.hold(self.data))
        wiring = self._wire()
        self._stack.callback(runtime.remove, self.data)
        logs = self.data / "logs"
        nats = Nats.in_folder(self.data, port=wiring.ports["nats"])
        self._on_step("nats", "starting")
        self._supervisor.start(nats.command(logs / "nats.log"))
        self._on_step("postgres", "starting")
        self._supervisor.start(self._postgres.command(logs / "postgres.log"))
        self._await({"nats": lambda: _yes_or(nats.is_ready()), "postgres": lambda: _yes_or(self._postgres.is_ready())})
        self._postgres.create_databases(DATABASES)
        names = self._shape.names()
        for name in names:
            self._on_step(name, "starting")
            self._supervisor.start(command(name, wiring))
        with httpx.Client(timeout=2.0, trust_env=False) as client:
            self._await({name: _probe(client, name, wiring) for name in names})
        self._ready = True
        self._write_runtime()

    def _wire(self) -> Wiring:
        """Find ports, keys and addresses; from here on the runtime file can be written."""
        port = self._shape.port
        if port and not is_free(port):
            hint = "Choose another with --port N, or stop what is listening there."
            raise StartFailed(f"Port {port} is in use.", hint=hint)
        names = self._shape.port_names()
        found = dict(zip([*names, "spare"], free_ports(len(names) + 1), strict=True))
        found["health.http"] = port or found["spare"]
        del found["spare"]
        kept = self.data / "secrets"
        key = self._key or keep_private(kept / "api-key", lambda: f"limpet_{secrets.token_urlsafe(32)}")
        self._postgres = Postgres.in_folder(self.data, port=found["postgres"])
        self._stack.callback(self._postgres.remove_sockets)
        nats_url = Nats.in_folder(self.data, port=found["nats"]).url
        wiring = Wiring(
            data=self.data,
            ports=found,
            dsns={name: self._postgres.dsn(name) for name in DATABASES},
            nats_url=nats_url,
            key=key,
            secret_key=keep_private(kept / "secret-key", _sealing_key),
            webhook_secret=keep_private(kept / "webhook-secret", lambda: secrets.token_hex(32)),
            inherited=self._env,
            own=self._own_env,
        )
        (self.data / "pages").mkdir(exist_ok=True)
        (self.data / "allowed-hosts").touch()
        self._runtime = runtime.Runtime(
            url=f"http://{LOOPBACK}:{found['health.http']}",
            key=key,
            pid=os.getpid(),
            data=str(self.data),
            nats_url=nats_url,
            ports=found,
            dsns=wiring.dsns,
        )
        return wiring

    def _write_runtime(self) -> None:
        with self._lock:
            # After the stop has begun the file may be gone already, and must stay so.
            if self._supervisor.children:
                # A full disk must not take a running platform down with it.
                with suppress(OSError):
                    self.runtime.write()

    def _await(self, probes: dict[str, Callable[[], str]]) -> None:
        """Wait until each probe answers with nothing left to wait for."""
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        said: dict[str, str] = {}
        while probes:
            for name, probe in list(probes.items()):
                why = probe()
                if not why:
                    del probes[name]
                    self._on_step(name, "ready")
                elif said.get(name) != why:
                    said[name] = why
                    self._on_step(name, why)
                if why:
                    self._give_up_on(name, why, late=time.monotonic() > deadline)
            if probes:
                time.sleep(LOOK_EVERY_SECONDS)

    def _give_up_on(self, name: str, why: str, *, late: bool) -> None:
        """Raise when waiting longer makes no sense."""
        child = self.child(name)
        if child.failure is not None:
            raise child.failure
        if late or child.last_exit == WRONG_SETTINGS or child.restarts >= TOO_MANY_RESTARTS:
            code = child.last_exit
            how = f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name
            state = f"is not ready: {why}" if code is None else f"does not stay up ({how})"
            log = child.command.log
            raise StartFailed(f"{name} {state}.\n{_tail(log)}", hint=f"Its log is {log}.")


def _yes_or(ready: bool) -> str:
    return "" if ready else "waiting for its first answer"


def _probe(client: httpx.Client, name: str, wiring: Wiring) -> Callable[[], str]:
    """What one service still waits for; empty when it is ready and its door is open."""

    def probe() -> str:
        try:
            answer = client.get(f"http://{LOOPBACK}:{wiring.ports[f'{name}.ops']}/readyz")
        except httpx.TransportError:
            return "waiting for its first answer"
        door = wiring.ports.get(f"{name}.http")
        if answer.status_code == httpx.codes.OK:
            return "" if door is None or is_open(door) else "waiting for its port to open"
        return f"waiting: {answer.text[:200]}"

    return probe


def _sealing_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _tail(log: Path, *, lines: int = 8) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
