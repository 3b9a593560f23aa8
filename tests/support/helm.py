"""The chart, rendered by real helms and looked at as objects."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import yaml

from tests.support.members import ROOT

CHART = ROOT / "deploy" / "helm" / "limpet"
BINARIES = ROOT / ".venv" / "helm"
HELMS = ("helm3", "helm4")
# The chart's own defaults are the set without a file.
SETS = ("default", "minimal", "full", "external")
# The keys of the services in values.yaml, and their names everywhere else.
SERVICES = {
    "scheduler": "scheduler",
    "fetcher": "fetcher",
    "parser": "parser",
    "proxyBroker": "proxy-broker",
    "health": "health",
}
Object: TypeAlias = dict[str, Any]


def helm(version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    binary = BINARIES / version
    assert binary.exists(), "helm is not here: run `make helm`"
    return subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)


def files_of(values: str) -> list[str]:
    return [] if values == "default" else ["-f", str(CHART / "ci" / f"{values}-values.yaml")]


def render(version: str, values: str = "default", *options: str) -> list[Object]:
    done = helm(version, "template", "limpet", str(CHART), "-n", "crawl", *files_of(values), *options)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


@cache
def rendered(values: str) -> list[Object]:
    return render("helm4", values)


def of(objects: list[Object], kind: str, name: str | None = None) -> list[Object]:
    return [
        found
        for found in objects
        if found["kind"] == kind and (name is None or found["metadata"]["name"].endswith(name))
    ]


def one(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = of(objects, kind, name)
    return found


def pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """The pod spec of everything that makes pods."""
    for found in objects:
        name = f"{found['kind']}/{found['metadata']['name']}"
        if found["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield name, found["spec"]["template"]["spec"]
        elif found["kind"] == "Pod":
            yield name, found["spec"]


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Values as they stand; those from secrets as `<secret>/<key>`."""
    found = {}
    for entry in container["env"]:
        reference = entry.get("valueFrom", {}).get("secretKeyRef")
        found[entry["name"]] = entry.get("value", reference and f"{reference['name']}/{reference['key']}")
    return found
