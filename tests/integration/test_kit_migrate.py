"""Migrations on a real database: once, in order, whole or not at all."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from limpet.cli.local.postgres import Postgres
from limpet.kit.errors import Permanent
from limpet.kit.migrate import MigrationChanged, migrate, scripts

Package = Callable[[dict[str, str]], str]
FIRST, SECOND = "0001_pre_create_a.sql", "0002_pre_create_b.sql"
GOOD = {FIRST: "CREATE TABLE a (n int)", SECOND: "CREATE TABLE b (n int); INSERT INTO b VALUES (1)"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with migrations; `folder.name` is its import name."""
    folder = tmp_path / f"migrated_{uuid4().hex}"
    (folder / "migrations").mkdir(parents=True)
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    sys.modules.pop(folder.name, None)


def write(folder: Path, files: dict[str, str]) -> str:
    for name, sql in files.items():
        (folder / "migrations" / name).write_text(sql)
    return folder.name


@pytest.fixture
async def dsn(postgres: Postgres) -> AsyncIterator[str]:
    name = f"test_{uuid4().hex}"
    conn = await asyncpg.connect(postgres.dsn("postgres"))
    await conn.execute(f'CREATE DATABASE "{name}"')
    yield postgres.dsn(name)
    await conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await conn.close()


async def fetchval(dsn: str, query: str) -> object:
    conn = await asyncpg.connect(dsn)
    try:
        return await conn.fetchval(query)
    finally:
        await conn.close()


async def tables(dsn: str) -> object:
    return await fetchval(
        dsn,
        "SELECT array_agg(tablename::text ORDER BY tablename) FROM pg_tables "
        "WHERE schemaname = 'public' AND tablename <> 'schema_migrations'",
    )


async def test_what_is_missing_is_applied_once_and_in_order(dsn: str, folder: Path) -> None:
    package = write(folder, {FIRST: GOOD[FIRST]})
    assert await migrate(dsn, package) == [FIRST]
    write(folder, GOOD)
    assert await migrate(dsn, package) == [SECOND]
    assert await migrate(dsn, package) == []
    assert await fetchval(dsn, "SELECT count(*) FROM b") == 1


async def test_several_at_the_same_time_apply_each_script_once(dsn: str, folder: Path) -> None:
    package = write(folder, {FIRST: "CREATE TABLE a (n int); SELECT pg_sleep(0.2)", SECOND: GOOD[SECOND]})
    found = await asyncio.gather(*(migrate(dsn, package) for _ in range(4)))
    assert sorted(found) == [[], [], [], [FIRST, SECOND]]
    assert await fetchval(dsn, "SELECT count(*) FROM b") == 1


async def test_an_edited_migration_is_refused_by_name_and_nothing_after_it_runs(dsn: str, folder: Path) -> None:
    package = write(folder, {FIRST: GOOD[FIRST]})
    await migrate(dsn, package)
    write(folder, {**GOOD, FIRST: GOOD[FIRST] + " "})
    with pytest.raises(MigrationChanged, match=FIRST):
        await migrate(dsn, package)
    assert await tables(dsn) == ["a"]


async def test_a_failing_migration_leaves_nothing_half(dsn: str, folder: Path) -> None:
    package = write(folder, {**GOOD, SECOND: "CREATE TABLE b (n int); INSERT INTO nowhere VALUES (1)"})
    with pytest.raises(asyncpg.UndefinedTableError):
        await migrate(dsn, package)
    assert await tables(dsn) == ["a"]
    assert await fetchval(dsn, "SELECT array_agg(name) FROM schema_migrations") == [FIRST]
    # Mended before it was ever applied: no edit, and the lock was let go.
    write(folder, GOOD)
    assert await asyncio.wait_for(migrate(dsn, package), 5) == [SECOND]


async def test_a_migration_that_cannot_be_written_down_is_not_applied(dsn: str, folder: Path) -> None:
    package = write(folder, {FIRST: "CREATE TABLE a (n int)"})
    await migrate(dsn, package)
    write(folder, {SECOND: "CREATE TABLE b (n int); DROP TABLE schema_migrations"})
    with pytest.raises(asyncpg.UndefinedTableError):
        await migrate(dsn, package)
    assert await tables(dsn) == ["a"]
    assert await fetchval(dsn, "SELECT count(*) FROM schema_migrations") == 1


async def test_a_package_without_migrations_is_a_mistake(dsn: str, folder: Path) -> None:
    with pytest.raises(Permanent, match="no migrations"):
        await migrate(dsn, folder.name)
    assert await tables(dsn) is None


def test_only_sql_files_count_and_they_come_in_order(folder: Path) -> None:
    package = write(folder, {SECOND: "2", "README.md": "no", FIRST: "1"})
    assert list(scripts(package).items()) == [(FIRST, "1"), (SECOND, "2")]
