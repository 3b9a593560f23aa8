"""Table stickies: which proxy a session, or an hour, keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from limpet.kit.pg import Conn

Session = tuple[str, str]


class Kept(NamedTuple):
    """The proxy of a session; one whose time is over is only a memory of the hour before."""

    proxy_id: int
    valid: bool


FIND: Final = """
    SELECT sticky.domain, sticky.session_key, sticky.proxy_id, sticky.kept_until > statement_timestamp() AS valid
      FROM unnest($1::text[], $2::text[]) AS asked (domain, session_key)
      JOIN stickies AS sticky USING (domain, session_key)
"""


async def find(conn: Conn, *, sessions: Sequence[Session]) -> dict[Session, Kept]:
    rows = await conn.fetch(FIND, [domain for domain, _ in sessions], [key for _, key in sessions])
    return {(row["domain"], row["session_key"]): Kept(row["proxy_id"], row["valid"]) for row in rows}


KEEP: Final = """
    INSERT INTO stickies AS sticky (domain, session_key, proxy_id, kept_until)
    SELECT new.domain, new.session_key, new.proxy_id,
           coalesce(statement_timestamp() + new.idle, date_trunc('hour', statement_timestamp()) + interval '1 hour')
      FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::interval[])
           AS new (domain, session_key, proxy_id, instead_of, idle)
     ORDER BY new.domain, new.session_key
    ON CONFLICT (domain, session_key) DO UPDATE
       SET proxy_id = excluded.proxy_id, kept_until = excluded.kept_until
     WHERE sticky.kept_until <= statement_timestamp() OR sticky.proxy_id = excluded.proxy_id
        OR (sticky.domain, sticky.session_key, sticky.proxy_id)
           IN (SELECT * FROM unnest($1::text[], $2::text[], $4::bigint[]))
    RETURNING domain, session_key
"""


async def keep(
    conn: Conn, *, chosen: Mapping[Session, int], instead_of: Mapping[Session, int], idle: Mapping[Session, timedelta]
) -> bool:
    """Keep a proxy for each session: until it is idle for so long, or to the end of the hour. False: another broker was
    first with a different one for some session."""
    rows = await conn.fetch(
        KEEP,
        [domain for domain, _ in chosen],
        [key for _, key in chosen],
        list(chosen.values()),
        [instead_of.get(session, 0) for session in chosen],
        [idle.get(session) for session in chosen],
    )
    return len(rows) == len(chosen)
