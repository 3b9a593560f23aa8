"""The platform in containers, each with the environment and the limits that the chart gives its pod."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from tests.support.helm import SERVICES, environment, one, rendered

TAG = os.environ.get("TAG", "dev")
HARDENED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp:mode=1777")
READY_SECONDS = 120.0
KEY = "a key of the tests"
SECRETS = {
    "api-keys": "admin:" + hashlib.sha256(KEY.encode()).hexdigest(),
    "secret-keys": base64.urlsafe_b64encode(b"k" * 32).decode(),
    "webhook-secret": "w" * 40,
}


def docker(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


def expanded(env: dict[str, str]) -> dict[str, str]:
    """Secrets filled in and `$(NAME)` replaced, as Kubernetes does."""
    known: dict[str, str] = {}
    for name, value in env.items():
        if value.startswith("limpet-keys/"):
            value = SECRETS[value.partition("/")[2]]
        elif value.startswith("limpet-servers/"):
            value = "p" + hashlib.sha256(value.encode()).hexdigest()[:30]
        for other, text in known.items():
            value = value.replace(f"$({other})", text)
        known[name] = value
    return known


class Containers:
    """A network, two servers, a migration and five services."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"limpet-test-{uuid4().hex[:8]}"
        self.network: dict[str, Any] = {}
        self._objects = rendered("default")

    def __enter__(self) -> Self:
        docker("network", "create", self.name)
        (config,) = json.loads(docker("network", "inspect", self.name))[0]["IPAM"]["Config"]
        self.network = config
        docker("volume", "create", f"{self.name}-pages")
        self._servers()
        for service in SERVICES.values():
            self.run_service(service)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        names = docker("ps", "-aq", "--filter", f"label=limpet-test={self.name}").split()
        if names:
            docker("rm", "-f", "-v", *names, check=False)
        docker("volume", "rm", f"{self.name}-pages", check=False)
        docker("network", "rm", self.name, check=False)

    @property
    def gateway(self) -> str:
        """Where this machine is, seen from the containers."""
        return str(self.network.get("Gateway") or ipaddress.ip_network(self.network["Subnet"])[1])

    def address(self, name: str) -> str:
        found = json.loads(docker("inspect", f"{self.name}-{name}"))[0]
        return str(found["NetworkSettings"]["Networks"][self.name]["IPAddress"])

    def _run(self, name: str, image: str, env: dict[str, str], *options: str, command: tuple[str, ...] = ()) -> None:
        given = [word for pair in env.items() for word in ("-e", "=".join(pair))]
        aliases: tuple[str, ...] = ("--network", self.name, "--network-alias", f"limpet-{name}")
        if name == "proxy-broker":
            aliases += ("--network-alias", "limpet-proxy-broker-rpc")
        label = ("--label", f"limpet-test={self.name}")
        docker(
            "run", "-d", "--name", f"{self.name}-{name}", *label, *aliases, *HARDENED, *options, *given, image, *command
        )

    def _servers(self) -> None:
        for name, path in (("nats", "nats.conf"), ("postgresql", "start.sh")):
            text = one(self._objects, "ConfigMap", f"limpet-{name}")["data"][path]
            (self.folder / path).write_text(text)
            (self.folder / path).chmod(0o644)
        self.folder.chmod(0o755)
        for name, path, target in (("nats", "nats.conf", "/etc/nats"), ("postgresql", "start.sh", "/etc/limpet")):
            (part,) = one(self._objects, "StatefulSet", f"-{name}")["spec"]["template"]["spec"]["containers"]
            command = tuple(part.get("command", part.get("args", ())))
            user = "999:999" if name == "postgresql" else "10001:10001"
            mounts = ("-v", f"{self.folder / path}:{target}/{path}:ro", "--tmpfs", "/data:mode=1777", "--user", user)
            image = f"localhost/limpet-{name}:{TAG}"
            self._run(name, image, expanded(environment(part)), *mounts, command=command)

    def run_service(self, service: str) -> None:
        """Migrate and then serve, as the Job and the pod do."""
        (part,) = one(self._objects, "Deployment", f"-{service}")["spec"]["template"]["spec"]["containers"]
        env = expanded(environment(part))
        env.pop("LIMPET_ALLOWED_HOSTS_FILE", None)
        if "LIMPET_ALLOWED_NETWORKS" in env:
            env["LIMPET_ALLOWED_NETWORKS"] = str(self.network["Subnet"])
        if service == "scheduler":
            env |= {"LIMPET_RETRY_BASE_SECONDS": "1", "LIMPET_BLOCK_BASE_SECONDS": "1"}
        image = f"limpet-{service}:{TAG}"
        package = f"limpet.{service.replace('-', '_')}"
        given = [word for pair in env.items() for word in ("-e", "=".join(pair))]
        label = ("--label", f"limpet-test={self.name}")
        prepare = ("timeout", str(int(READY_SECONDS)), "python", "-m", package, "prepare")
        docker("run", "--rm", "--network", self.name, *label, *HARDENED, *given, image, *prepare)
        pages = ("-v", f"{self.name}-pages:/var/lib/limpet/pages") if "LIMPET_PAGE_STORE" in env else ()
        memory = part["resources"]["limits"]["memory"].replace("Mi", "m").replace("Gi", "g")
        self._run(service, image, env, *pages, "--memory", memory, command=tuple(part["command"]))

    def logs(self, name: str) -> str:
        done = subprocess.run(["docker", "logs", f"{self.name}-{name}"], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


@contextmanager
def containers(folder: Path) -> Iterator[Containers]:
    assert subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0, (
        "There is no Docker daemon. Start it with: sudo dockerd --host unix:///var/run/docker.sock"
    )
    started = time.monotonic()
    with Containers(folder) as running:
        print(f"containers started in {time.monotonic() - started:.1f} s")
        yield running
