"""Table changes: what happened to proxies and is still to be announced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True, kw_only=True)
class Change:
    """One announcement."""

    change_id: int
    proxy_id: int
    active: bool
    removed: bool
    reason: str
    changed_at: datetime


ADD: Final = """
    INSERT INTO changes (proxy_id, active, removed, reason)
    SELECT proxy_id, $2, $3, $4 FROM unnest($1::bigint[]) AS changed (proxy_id)
"""


async def add(conn: Conn, *, proxy_ids: Sequence[int], active: bool, reason: str, removed: bool = False) -> None:
    """Part of the transaction that changes the proxies; their row locks keep each proxy's changes in order."""
    await conn.execute(ADD, list(proxy_ids), active, removed, reason)


BE_ALONE: Final = "SELECT pg_try_advisory_xact_lock(7463916)"


async def be_alone(conn: Conn) -> bool:
    """One announcer at a time in the cluster: an old state must not overtake a new one."""
    alone: bool = await conn.fetchval(BE_ALONE)
    return alone


LIST: Final = """
    SELECT change_id, proxy_id, active, removed, reason, changed_at FROM changes ORDER BY change_id LIMIT $1
"""


async def list_oldest(conn: Conn, *, limit: int) -> list[Change]:
    return [Change(**row) for row in await conn.fetch(LIST, limit)]


DONE: Final = "DELETE FROM changes WHERE change_id = ANY($1::bigint[])"


async def done(conn: Conn, *, change_ids: Sequence[int]) -> None:
    await conn.execute(DONE, list(change_ids))
