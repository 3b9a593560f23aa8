"""Links that batches did not follow, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from limpet.kit.pg import Conn, Record

# A batch that is gone has no use for them.
ADD_REJECTIONS: Final = """
    INSERT INTO batch_rejections AS b (batch_id, reason, links, example)
    SELECT n.batch_id, n.reason, n.links, n.example
      FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) AS n(batch_id, reason, links, example)
      JOIN batches USING (batch_id) ORDER BY n.batch_id, n.reason
    ON CONFLICT (batch_id, reason) DO UPDATE SET links = b.links + excluded.links, example = excluded.example
"""


async def add_rejections(conn: Conn, counted: Mapping[tuple[int, str], tuple[int, str]]) -> None:
    """(batch, reason): how many more, and one of them."""
    await conn.execute(
        ADD_REJECTIONS,
        [key[0] for key in counted],
        [key[1] for key in counted],
        [value[0] for value in counted.values()],
        [value[1] for value in counted.values()],
    )


GET_REJECTIONS: Final = """
    SELECT reason, links, example FROM batch_rejections WHERE batch_id = $1 ORDER BY links DESC, reason
"""


async def get_rejections(conn: Conn, batch_id: int) -> list[Record]:
    return await conn.fetch(GET_REJECTIONS, batch_id)
