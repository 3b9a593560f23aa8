"""Packs: the objects of the page store, from their last use to their end. One fetcher at a time clears away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from limpet.kit.pg import Conn

# Any number, so that it is always the same and nobody else's.
_TURN: Final = 7_463_918

PACKS_TAKE_TURN: Final = """
    SELECT pg_try_advisory_xact_lock($1)
"""


async def take_turn(conn: Conn) -> bool:
    """False while another fetcher is at it. Held until the transaction ends."""
    return bool(await conn.fetchval(PACKS_TAKE_TURN, _TURN))


# Uses are kept to the day, hence a day more.
PACKS_CONDEMN: Final = """
    WITH old AS (
        SELECT pack FROM packs
         WHERE last_used_at < now() - $1::interval - interval '1 day' AND condemned_at IS NULL
         ORDER BY last_used_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), forgotten AS (
        DELETE FROM bodies USING old WHERE split_part(bodies.body_key, '#', 1) = old.pack
    )
    UPDATE packs SET condemned_at = now() FROM old WHERE packs.pack = old.pack
"""


async def condemn(conn: Conn, *, unused_for: timedelta, limit: int) -> int:
    """From now on nobody finds the bodies of these packs, so nobody new refers to them."""
    return int((await conn.execute(PACKS_CONDEMN, unused_for, limit)).rpartition(" ")[2])


PACKS_KEPT: Final = """
    SELECT pack FROM packs WHERE pack = ANY($1::text[]) AND condemned_at IS NULL
"""


async def kept(conn: Conn, packs: Sequence[str]) -> set[str]:
    """Those of them that are not on their way out."""
    return {row["pack"] for row in await conn.fetch(PACKS_KEPT, list(packs))}


PACKS_FORGET: Final = """
    DELETE FROM packs WHERE pack IN (
        SELECT pack FROM packs WHERE condemned_at < now() - $1::interval
         ORDER BY condemned_at LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    RETURNING pack
"""


async def forget(conn: Conn, *, condemned_for: timedelta, limit: int) -> list[str]:
    """The names of packs that can go. Whoever found a body in one before it was condemned has said so by now."""
    return [row["pack"] for row in await conn.fetch(PACKS_FORGET, condemned_for, limit)]
