"""The five services as processes: names, commands, ports and environments. Pure."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from limpet.cli.local.ports import LOOPBACK
from limpet.cli.local.supervise import Command

DATABASES: Final = (
    "limpet_scheduler",
    "limpet_fetcher",
    "limpet_parser",
    "limpet_proxy_broker",
    "limpet_health",
)
# Ours alone: the services get the hash of the key, never the key.
KEPT_BACK: Final = ("LIMPET_API_KEY", "LIMPET_URL")
WITH_REST: Final = ("scheduler", "parser", "proxy-broker", "health")


@dataclass(frozen=True)
class Shape:
    """How many of each service, and where people find the front door."""

    fetchers: int
    schedulers: int
    port: int

    def names(self) -> list[str]:
        """The processes of the five services, in the order of their start."""
        schedulers = [f"scheduler-{number}" for number in range(1, self.schedulers + 1)]
        fetchers = [f"fetcher-{number}" for number in range(1, self.fetchers + 1)]
        return ["proxy-broker", *schedulers, "parser", *fetchers, "health"]

    def stop_order(self) -> list[list[str]]:
        """Those that make work stop first, those that keep it last."""
        names = self.names()
        fetchers = [name for name in names if service_of(name) == "fetcher"]
        schedulers = [name for name in names if service_of(name) == "scheduler"]
        return [fetchers, ["parser"], schedulers, ["proxy-broker"], ["health"], ["nats"], ["postgres"]]

    def port_names(self) -> list[str]:
        """Every port that must be found, one name each."""
        names = self.names()
        ops = [f"{name}.ops" for name in names]
        rest = [f"{name}.http" for name in names if service_of(name) in WITH_REST and name != "health"]
        return ["nats", "postgres", *ops, *rest, "proxy-broker.grpc"]


@dataclass(frozen=True)
class Wiring:
    """What the environments are made of."""

    data: Path
    ports: Mapping[str, int]
    dsns: Mapping[str, str]
    nats_url: str
    key: str
    secret_key: str
    webhook_secret: str
    inherited: Mapping[str, str]
    # What single processes have besides, by name.
    own: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def service_of(name: str) -> str:
    """The service a process belongs to: `fetcher-2` is a fetcher."""
    stem, _, number = name.rpartition("-")
    return stem if number.isdigit() else name


def environment(name: str, wiring: Wiring) -> dict[str, str]:
    """What one process finds in its environment: what we inherited, and over it what we know better."""
    service = service_of(name)
    env = {key: value for key, value in wiring.inherited.items() if key not in KEPT_BACK}
    env |= {
        "LIMPET_NATS_URL": wiring.nats_url,
        "LIMPET_PG_DSN": wiring.dsns["limpet_" + service.replace("-", "_")],
        "LIMPET_OPS_PORT": str(wiring.ports[f"{name}.ops"]),
        "LIMPET_WORKER_ID": name,
    }
    env.setdefault("LIMPET_DRAIN_SECONDS", "10")
    if service in WITH_REST:
        env["LIMPET_HTTP_HOST"] = LOOPBACK
        env["LIMPET_HTTP_PORT"] = str(wiring.ports[f"{name}.http"])
        env["LIMPET_API_KEYS"] = "admin:" + hashlib.sha256(wiring.key.encode()).hexdigest()
    if service in ("scheduler", "fetcher", "parser"):
        env["LIMPET_PAGE_STORE"] = (wiring.data / "pages").as_uri()
    if service in ("scheduler", "fetcher"):
        env["LIMPET_ALLOWED_HOSTS_FILE"] = str(wiring.data / "allowed-hosts")
    if service == "scheduler":
        env["LIMPET_WEBHOOK_SECRET"] = wiring.webhook_secret
    if service in ("scheduler", "fetcher"):
        env["LIMPET_BROKER_ADDRESS"] = f"{LOOPBACK}:{wiring.ports['proxy-broker.grpc']}"
    if service == "proxy-broker":
        env["LIMPET_GRPC_PORT"] = str(wiring.ports["proxy-broker.grpc"])
        env["LIMPET_SECRET_KEYS"] = wiring.secret_key
    if service == "health":
        for other, process in (("SCHEDULER", "scheduler-1"), ("PARSER", "parser"), ("PROXY_BROKER", "proxy-broker")):
            env[f"LIMPET_{other}_URL"] = f"http://{LOOPBACK}:{wiring.ports[f'{process}.http']}"
    return {**env, **wiring.own.get(name, {})}


def command(name: str, wiring: Wiring) -> Command:
    """How to run one process."""
    module = f"limpet.{service_of(name).replace('-', '_')}.main"
    return Command(
        name=name,
        argv=(sys.executable, "-m", module),
        log=wiring.data / "logs" / f"{name}.log",
        env=environment(name, wiring),
    )
