"""The distributions of this repository as files: where they are, what they declare, what they import."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SERVICES = ("scheduler", "fetcher", "parser", "proxy-broker", "health")


@dataclass(frozen=True)
class Member:
    """One distribution: `limpet-fetcher` holds the package `limpet.fetcher`."""

    folder: str
    package: str
    source: str = "src"

    @property
    def distribution(self) -> str:
        return str(self.project()["name"])

    @property
    def code(self) -> Path:
        return ROOT / self.folder / self.source / self.package.replace(".", "/")

    def project(self) -> dict[str, object]:
        text = (ROOT / self.folder / "pyproject.toml").read_text()
        project: dict[str, object] = tomllib.loads(text)["project"]
        return project

    def declared(self) -> set[str]:
        dependencies = self.project()["dependencies"]
        assert isinstance(dependencies, list)
        return {canonical(re.split(r"[^A-Za-z0-9._-]", entry.strip())[0]) for entry in dependencies}

    def modules(self) -> list[Path]:
        return sorted(self.code.rglob("*.py"))

    def imports(self) -> dict[str, list[str]]:
        """Every module that is imported, at the top or inside a function, with the places that do."""
        found: dict[str, list[str]] = {}
        for path in self.modules():
            for name, line in imports_of(path):
                found.setdefault(name, []).append(f"{path.relative_to(ROOT)}:{line}")
        return found


SERVICE_MEMBERS = tuple(Member(f"services/{name}", f"limpet.{name.replace('-', '_')}") for name in SERVICES)
KIT = Member("libs/kit", "limpet.kit")
CLI = Member("cli", "limpet.cli")
CONTRACTS = Member("proto", "limpet.contracts", source="gen")
MEMBERS = (*SERVICE_MEMBERS, KIT, CLI, CONTRACTS)


def canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Dotted names and lines; `from limpet.kit import tracing` counts as `limpet.kit.tracing`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno
