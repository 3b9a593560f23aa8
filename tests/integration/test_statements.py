"""Every SQL statement of every store is prepared against the migrated schema."""

from __future__ import annotations

import importlib
import pkgutil

import asyncpg
import pytest

from tests.conftest import Database

SERVICES = ("limpet.scheduler", "limpet.fetcher", "limpet.parser", "limpet.proxy_broker", "limpet.health")


def every_statement() -> dict[str, tuple[str, str]]:
    """Qualified name to (service, SQL): in a store module every UPPER_CASE string is a statement."""
    found: dict[str, tuple[str, str]] = {}
    for service in SERVICES:
        package = importlib.import_module(f"{service}.store")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{service}.store.{info.name}")
            for name, value in vars(module).items():
                if name.isupper() and isinstance(value, str) and not name.startswith("_"):
                    found[f"{module.__name__}.{name}"] = (service, value)
    return found


@pytest.mark.parametrize("service", SERVICES)
async def test_every_statement_prepares(database: Database, service: str) -> None:
    statements = {name: sql for name, (owner, sql) in every_statement().items() if owner == service}
    assert statements, f"{service} has no statements: did its store move?"
    conn = await asyncpg.connect(await database(service))
    try:
        for name, sql in statements.items():
            try:
                await conn.prepare(sql)
            except asyncpg.PostgresError as error:
                pytest.fail(f"{name}: {error}")
    finally:
        await conn.close()
