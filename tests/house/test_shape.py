"""Names, sizes and places of files."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.support.members import CLI, KIT, MEMBERS, ROOT, SERVICE_MEMBERS, Member, tree

BANNED_MODULES = {"utils", "helpers", "common", "misc", "base", "manager"}
MOST_LINES = 400
OURS = (*SERVICE_MEMBERS, KIT, CLI)
MIGRATION = re.compile(r"(\d{4})_(pre|post)_[a-z0-9]+(_[a-z0-9]+)*\.sql")
# Folders of one machine and its people. What every system or image has (/usr, /var, /tmp) is no secret of ours.
MACHINE_PATH = re.compile(r"(?<![\w.:/-])(/(?:home|root|Users|work|mnt|media)/[\w.-]+|[A-Z]:\\\\?(?:Users|Windows))")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|(?:test\.)?pypi\.|devpi|artifactory|registry\.npmjs|--(?:extra-)?index-url"
    r"|--find-links=?\s*(?:https?:|/)|\bindex-url\b",
    re.IGNORECASE,
)


def named(member: Member) -> str:
    return member.distribution


@cache
def tracked() -> list[Path]:
    """Files of the repository: those in git and those about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def test_the_namespace_has_no_init_file_anywhere() -> None:
    assert [str(path) for path in tracked() if path.match("limpet/__init__.py")] == []
    assert [str(member.code.parent / "__init__.py") for member in MEMBERS if _stray(member)] == []


def _stray(member: Member) -> bool:
    """An ignored file hides the other members as well as a tracked one."""
    return (member.code.parent / "__init__.py").exists()


@pytest.mark.parametrize("member", MEMBERS, ids=named)
def test_every_member_is_typed(member: Member) -> None:
    assert (member.code / "py.typed").is_file()


@pytest.mark.parametrize("member", MEMBERS, ids=named)
def test_every_folder_with_code_is_a_package(member: Member) -> None:
    folders = {path.parent for path in member.modules()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("member", OURS, ids=named)
def test_no_module_has_a_name_that_says_nothing(member: Member) -> None:
    names = [path for path in member.code.rglob("*") if path.suffix in ("", ".py")]
    assert [str(path.relative_to(ROOT)) for path in names if path.stem in BANNED_MODULES] == []


@pytest.mark.parametrize("member", OURS, ids=named)
def test_no_file_is_too_long_to_read(member: Member) -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in member.modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


@pytest.mark.parametrize("member", SERVICE_MEMBERS, ids=named)
def test_no_statement_of_a_store_is_put_together_from_parts(member: Member) -> None:
    store = member.code / "store"
    assert list(store.glob("*.py")), f"{member.distribution} has no store: did it move?"
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted(store.rglob("*.py"))
        for line, what in formatted(tree(path))
    ]
    assert found == []


def formatted(module: ast.Module) -> list[tuple[int, str]]:
    """Lines that make text from text: f-strings, `%`, `+`, `*`, format, join, replace, templates."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            found.append((node.lineno, "f-string"))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.Add, ast.Mult)):
            if any(_is_text(side) for side in (node.left, node.right)):
                found.append((node.lineno, "operator on a string"))
        elif isinstance(node, ast.AugAssign) and _is_text(node.value):
            found.append((node.lineno, "operator on a string"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, method = node.func.value, node.func.attr
            if method in ("format", "format_map", "substitute") or (
                method in ("join", "replace", "translate") and (_is_text(owner) or _is_statement(owner))
            ):
                found.append((node.lineno, f".{method}()"))
    return found


def _is_text(node: ast.expr) -> bool:
    return (isinstance(node, ast.Constant) and isinstance(node.value, str)) or _is_statement(node)


def _is_statement(node: ast.expr) -> bool:
    """In a store module every UPPER_CASE name is a statement."""
    return isinstance(node, ast.Name) and node.id.isupper()


@pytest.mark.parametrize(
    "code",
    [
        "Q = f'SELECT {x}'",
        "Q = 'SELECT %s' % x",
        "Q = 'SELECT {}'.format(x)",
        "Q = ', '.join(parts)",
        "Q = 'SELECT ' + x",
        "async def f(c): await c.fetch(LIST + tail)",
        "async def f(c): await c.fetch(LIST.replace('a', b))",
    ],
)
def test_the_look_for_formatted_statements_sees_each_way(code: str) -> None:
    assert formatted(ast.parse(code)) != []


@pytest.mark.parametrize("member", SERVICE_MEMBERS, ids=named)
def test_migrations_are_named_and_numbered_without_gaps(member: Member) -> None:
    names = sorted(path.name for path in (member.code / "migrations").iterdir() if path.suffix == ".sql")
    assert [name for name in names if not MIGRATION.fullmatch(name)] == []
    assert names, f"{member.distribution} has no migrations"
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


def test_no_file_names_a_path_of_one_machine() -> None:
    this = Path(__file__).name
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in tracked()
        if path.name != this
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if not line.startswith("#!") and (match := MACHINE_PATH.search(line))
    ]
    assert found == []


def test_no_file_names_a_package_registry() -> None:
    this = Path(__file__).name
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in tracked()
        if path.name != this
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if (match := REGISTRY.search(line))
    ]
    assert found == []


@pytest.mark.parametrize("lock", ["requirements.lock", "bench/requirements.lock", "deploy/helm/tools.lock"])
def test_a_lock_holds_pins_and_hashes_and_no_addresses(lock: str) -> None:
    lines = [line.strip() for line in (ROOT / lock).read_text().splitlines()]
    assert [line for line in lines if "://" in line or (line.startswith("-") and not line.startswith("--hash="))] == []
    pins = [line for line in lines if line and not line.startswith(("#", "--hash="))]
    assert [pin for pin in pins if "==" not in pin] == []


@pytest.mark.parametrize("line", ["cd /work/main", 'p = "/home/ann/x"', "data: /root/.cache", r"C:\Users\ann"])
def test_the_look_for_machine_paths_sees_them(line: str) -> None:
    assert MACHINE_PATH.search(line)
