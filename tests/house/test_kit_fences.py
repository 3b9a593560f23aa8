"""What keeps the kit a kit: mechanisms that several services need, and no word of the domain."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.support.members import KIT, ROOT, SERVICE_MEMBERS, tree

DOMAIN_WORDS = {"task", "page", "proxy", "domain", "crawl", "url"}
DOMAIN_WORDS |= {f"{word}s" for word in DOMAIN_WORDS} | {"proxies"}
MODULES = sorted(path.stem for path in KIT.modules() if path.stem != "__init__")


def words(name: str) -> set[str]:
    """`serve_rest` and `BodyCap` alike."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return {part.lower() for part in parts}


@cache
def importers() -> dict[str, set[str]]:
    """Kit module to the services that use it, by themselves or through a kit module that they use."""
    direct: dict[str, set[str]] = {module: set() for module in MODULES}
    for member in SERVICE_MEMBERS:
        for name in member.imports():
            if name.startswith("limpet.kit.") and (module := name.split(".")[2]) in direct:
                direct[module].add(member.distribution)
    inside = {
        module: {
            name.split(".")[2]
            for name, places in KIT.imports().items()
            if name.startswith("limpet.kit.") and any(f"/{module}.py:" in place for place in places)
        }
        for module in MODULES
    }
    users = {module: set(services) for module, services in direct.items()}
    for _ in MODULES:
        for module, uses in inside.items():
            for used in uses:
                users[used] |= users[module]
    return users


@pytest.mark.parametrize("module", MODULES)
def test_a_kit_module_serves_at_least_two_services(module: str) -> None:
    """Some serve them only through another kit module: `batch`, `pull` (bus), `breaker` (beat)."""
    assert len(importers()[module]) >= 2, "with one user it belongs into that service"


def test_no_class_or_function_of_the_kit_has_a_domain_word_in_its_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in KIT.modules()
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and words(node.name) & DOMAIN_WORDS
    ]
    assert found == []


@pytest.mark.parametrize(
    ("name", "found"),
    [("open_page", True), ("TaskBoard", True), ("URLGuard", True), ("proxies_of", True), ("make_app", False)],
)
def test_domain_words_are_seen_in_snake_and_camel(name: str, found: bool) -> None:
    assert bool(words(name) & DOMAIN_WORDS) is found


def test_the_kit_makes_no_client_and_starts_nothing_when_imported() -> None:
    """At the top of a module: constants, patterns, loggers and metrics, nothing that holds a connection."""
    openers = {"connect", "Client", "create_pool", "Bus", "Blobs", "open", "run", "create_task", "Readiness"}
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {name}"
        for path in KIT.modules()
        for statement in tree(path).body
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr))
        for call in ast.walk(statement)
        if isinstance(call, ast.Call) and (name := _called(call.func)) in openers
    ]
    assert found == []


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
