"""Table proxies: sealed passwords, by the key that they lie under."""

from __future__ import annotations

from typing import Final

from limpet.kit.pg import Conn

LOCK_OLD: Final = """
    SELECT proxy_id, password_sealed FROM proxies
     WHERE proxy_id > $1 AND password_sealed IS NOT NULL AND split_part(password_sealed, ':', 2) <> $2
     ORDER BY proxy_id LIMIT $3 FOR NO KEY UPDATE
"""


async def lock_old(conn: Conn, *, after: int, newest: str, limit: int) -> dict[int, str]:
    """Passwords that are not under the newest key, with their proxies locked."""
    rows = await conn.fetch(LOCK_OLD, after, newest, limit)
    return {row["proxy_id"]: row["password_sealed"] for row in rows}


COUNT_BY_KEY: Final = """
    SELECT split_part(password_sealed, ':', 2) AS key_id, count(*) AS count
      FROM proxies WHERE password_sealed IS NOT NULL GROUP BY 1 ORDER BY 1
"""


async def count_by_key(conn: Conn) -> dict[str, int]:
    return {row["key_id"]: row["count"] for row in await conn.fetch(COUNT_BY_KEY)}
