"""What happened to domains and is still to be announced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True)
class Change:
    change_id: int
    domain_id: int
    event: bytes


ADD_CHANGE: Final = """
    INSERT INTO domain_changes (domain_id, event) VALUES ($1, $2)
"""


async def add_change(conn: Conn, domain_id: int, event: bytes) -> None:
    """Part of the transaction that changes the domain; its row lock keeps its changes in order."""
    await conn.execute(ADD_CHANGE, domain_id, event)


BE_ALONE: Final = """
    SELECT pg_try_advisory_xact_lock(7463917)
"""


async def be_alone(conn: Conn) -> bool:
    """One announcer at a time in the cluster: an old state must not overtake a new one."""
    return bool(await conn.fetchval(BE_ALONE))


LIST_CHANGES: Final = """
    SELECT change_id, domain_id, event FROM domain_changes ORDER BY change_id LIMIT $1
"""


async def list_changes(conn: Conn, *, limit: int) -> list[Change]:
    return [Change(*row) for row in await conn.fetch(LIST_CHANGES, limit)]


DROP_CHANGES: Final = """
    DELETE FROM domain_changes WHERE change_id = ANY($1::bigint[])
"""


async def drop_changes(conn: Conn, change_ids: Sequence[int]) -> None:
    await conn.execute(DROP_CHANGES, list(change_ids))
