"""Migrations: numbered SQL files of a package, applied once, in order, under a lock, checked by checksum."""

from __future__ import annotations

import hashlib
from importlib import resources

import asyncpg
import structlog

from limpet.kit.errors import Permanent

log = structlog.get_logger()

_LOCK = 7_463_915
_TABLE = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
        name text PRIMARY KEY,
        checksum text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""


class MigrationChanged(Permanent):
    """A migration that was applied has been edited since. Restore it and write a new one."""


def scripts(package: str) -> dict[str, str]:
    """The package's migrations by name, in order. An empty folder is a packaging mistake, not success."""
    folder = resources.files(package) / "migrations"
    found = {item.name: item.read_text() for item in folder.iterdir() if item.name.endswith(".sql")}
    if not found:
        raise Permanent(f"{package} has no migrations: was it installed without its SQL files?")
    return dict(sorted(found.items()))


async def migrate(dsn: str, package: str) -> list[str]:
    """Apply what is missing and return its names."""
    conn = await asyncpg.connect(dsn)
    applied: list[str] = []
    try:
        await conn.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await conn.execute(_TABLE)
        known = {
            row["name"]: row["checksum"] for row in await conn.fetch("SELECT name, checksum FROM schema_migrations")
        }
        for name, sql in scripts(package).items():
            checksum = hashlib.sha256(sql.encode()).hexdigest()
            if name not in known:
                async with conn.transaction():
                    await conn.execute("SET LOCAL lock_timeout = '4s'")
                    await conn.execute(sql)
                    await conn.execute("INSERT INTO schema_migrations (name, checksum) VALUES ($1, $2)", name, checksum)
                applied.append(name)
                log.info("migration_applied", name=name)
            elif known[name] != checksum:
                raise MigrationChanged(
                    f"{name} was edited after it had been applied; restore it and add a new migration"
                )
    finally:
        await conn.close()
    return applied


async def missing(dsn: str, package: str) -> list[str]:
    """The names of the package's migrations that the database lacks. Nothing is written."""
    conn = await asyncpg.connect(dsn)
    try:
        names = await conn.fetch("SELECT name FROM schema_migrations")
    except asyncpg.UndefinedTableError:
        names = []
    finally:
        await conn.close()
    applied = {row["name"] for row in names}
    return [name for name in scripts(package) if name not in applied]
