"""Idempotency keys: which requests run, and what the finished ones were answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from limpet.kit.pg import Conn

# An answer is kept so long.
KEPT: Final = timedelta(hours=24)
# A request that has not ended by then died with its process.
STALE: Final = timedelta(seconds=60)


@dataclass(frozen=True)
class Key:
    caller: bytes
    route: str
    key: str


@dataclass(frozen=True)
class Held:
    """What is known of a key that somebody used before. Without a status that request still runs."""

    body_hash: bytes
    status: int | None
    content_type: str | None
    answer: bytes | None


CLAIM_KEY: Final = """
    INSERT INTO idempotency_keys AS held (caller, route, key, body_hash) VALUES ($1, $2, $3, $4)
    ON CONFLICT (caller, route, key) DO UPDATE
       SET body_hash = excluded.body_hash, claim = excluded.claim, created_at = excluded.created_at,
           status = NULL, content_type = NULL, answer = NULL
     WHERE held.created_at < now() - $5::interval OR (held.status IS NULL AND held.created_at < now() - $6::interval)
 RETURNING claim
"""


async def claim_key(conn: Conn, key: Key, *, body_hash: bytes) -> UUID | None:
    """The claim under which the answer is kept, or None when the key is in use."""
    claim: UUID | None = await conn.fetchval(CLAIM_KEY, key.caller, key.route, key.key, body_hash, KEPT, STALE)
    return claim


GET_KEY: Final = """
    SELECT body_hash, status, content_type, answer FROM idempotency_keys WHERE caller = $1 AND route = $2 AND key = $3
"""


async def get_key(conn: Conn, key: Key) -> Held | None:
    row = await conn.fetchrow(GET_KEY, key.caller, key.route, key.key)
    return Held(**row) if row is not None else None


KEEP_ANSWER: Final = """
    UPDATE idempotency_keys SET status = $5, content_type = $6, answer = $7
     WHERE caller = $1 AND route = $2 AND key = $3 AND claim = $4
"""


async def keep_answer(conn: Conn, key: Key, *, claim: UUID, status: int, content_type: str, answer: bytes) -> None:
    """Nothing happens when another request has taken the key over."""
    await conn.execute(KEEP_ANSWER, key.caller, key.route, key.key, claim, status, content_type, answer)


FREE_KEY: Final = """
    DELETE FROM idempotency_keys WHERE caller = $1 AND route = $2 AND key = $3 AND claim = $4
"""


async def free_key(conn: Conn, key: Key, *, claim: UUID) -> None:
    await conn.execute(FREE_KEY, key.caller, key.route, key.key, claim)


PRUNE_KEYS: Final = """
    WITH pruned AS (DELETE FROM idempotency_keys WHERE created_at < now() - $1::interval RETURNING 1)
    SELECT count(*) FROM pruned
"""


async def prune_keys(conn: Conn) -> int:
    """Drop what is older than an answer is kept; how many that were."""
    return int(await conn.fetchval(PRUNE_KEYS, KEPT))
