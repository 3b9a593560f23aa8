"""Bodies: where the bytes with a digest are kept, so that the same body is stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from limpet.kit.pg import Conn

BODIES_FIND: Final = """
    SELECT digest, body_key FROM bodies WHERE digest = ANY($1::bytea[])
"""


async def find(conn: Conn, digests: Sequence[bytes]) -> dict[bytes, str]:
    return {row["digest"]: row["body_key"] for row in await conn.fetch(BODIES_FIND, list(digests))}


# The first one wins; what a race stored a second time is reachable under its own key.
BODIES_ADD: Final = """
    INSERT INTO bodies (digest, body_key, size_bytes)
    SELECT * FROM unnest($1::bytea[], $2::text[], $3::integer[]) AS found(digest, body_key, size_bytes)
     ORDER BY found.digest
    ON CONFLICT (digest) DO NOTHING
"""


async def add(conn: Conn, bodies: Sequence[tuple[bytes, str, int]]) -> None:
    """Digest, key and size of each."""
    if bodies:
        await conn.execute(BODIES_ADD, *(list(column) for column in zip(*bodies, strict=True)))
