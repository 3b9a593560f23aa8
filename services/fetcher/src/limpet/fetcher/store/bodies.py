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
