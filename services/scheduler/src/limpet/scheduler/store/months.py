"""History by month: the months ahead are made, old ones dropped. One scheduler at a time does it."""

from __future__ import annotations

from datetime import date
from typing import Final

from limpet.kit.pg import Conn

# Any number, so that it is always the same and nobody else's.
_TURN: Final = 7_463_916

TAKE_TURN: Final = """
    SELECT pg_try_advisory_xact_lock($1), set_config('lock_timeout', '4s', true)
"""


async def take_turn(conn: Conn) -> bool:
    """False while another scheduler is at it. Held until the transaction ends, in which no lock is waited for long."""
    row = await conn.fetchrow(TAKE_TURN, _TURN)
    return row is not None and bool(row[0])


MAKE_MONTH: Final = """
    SELECT make_month($1, $2)
"""


async def make_month(conn: Conn, parent: str, month: date) -> bool:
    """False when it is there already."""
    return bool(await conn.fetchval(MAKE_MONTH, parent, month))


DROP_MONTHS: Final = """
    SELECT drop_months($1, $2)
"""


async def drop_months(conn: Conn, parent: str, *, before: date) -> list[str]:
    """The names of the months that were dropped: those that had ended by then."""
    return [row[0] for row in await conn.fetch(DROP_MONTHS, parent, before)]
