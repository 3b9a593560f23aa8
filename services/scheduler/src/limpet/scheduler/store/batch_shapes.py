"""How many addresses of a shape that may never end a batch has taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from limpet.kit.pg import Conn

COUNT_SHAPES: Final = """
    INSERT INTO batch_shapes AS b (batch_id, shape, pages)
    SELECT $1, shape, count FROM unnest($2::text[], $3::int[]) AS n(shape, count) ORDER BY shape
    ON CONFLICT (batch_id, shape) DO UPDATE SET pages = b.pages + excluded.pages
    RETURNING shape, pages
"""


async def count_shapes(conn: Conn, batch_id: int, new: Mapping[str, int]) -> dict[str, int]:
    """So many more of each; how many that makes. The batch is locked by the caller."""
    rows = await conn.fetch(COUNT_SHAPES, batch_id, list(new), list(new.values()))
    return {row["shape"]: row["pages"] for row in rows}
