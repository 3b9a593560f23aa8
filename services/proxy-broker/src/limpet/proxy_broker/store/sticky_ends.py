"""Table stickies: how sessions end, by their time or because the site refused their proxy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.tally import PairKey

DROP: Final = """
    DELETE FROM stickies
     WHERE (domain, session_key) IN (
        SELECT sticky.domain, sticky.session_key
          FROM stickies AS sticky
          JOIN unnest($1::text[], $2::bigint[]) AS pair (domain, proxy_id) USING (domain, proxy_id)
         ORDER BY sticky.domain, sticky.session_key FOR UPDATE OF sticky
     )
"""


async def drop(conn: Conn, *, keys: Collection[PairKey]) -> None:
    """The sessions of these pairs look for another proxy."""
    await conn.execute(DROP, [domain for domain, _ in keys], [proxy_id for _, proxy_id in keys])


EXPIRE: Final = """
    DELETE FROM stickies
     WHERE (domain, session_key) IN (
        SELECT domain, session_key FROM stickies
         WHERE kept_until <= statement_timestamp()
           AND (session_key <> '' OR kept_until <= statement_timestamp() - interval '1 hour')
         LIMIT $1 FOR UPDATE SKIP LOCKED
     )
"""


async def expire(conn: Conn, *, limit: int) -> int:
    """Forget sessions that are over. An hour's proxy is remembered for one more, which must not take the same."""
    done: str = await conn.execute(EXPIRE, limit)
    return int(done.rpartition(" ")[2])
