"""Lists that batches follow, and what is known of each. The domain of a list is locked by whoever changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from limpet.kit.pg import Conn

GET_LISTS: Final = """
    SELECT batch_id, stem, state::text AS state FROM followed_lists
     WHERE (batch_id, stem) IN (SELECT * FROM unnest($1::bigint[], $2::text[]))
"""


async def get_lists(conn: Conn, keys: Sequence[tuple[int, str]]) -> dict[tuple[int, str], str]:
    rows = await conn.fetch(GET_LISTS, [key[0] for key in keys], [key[1] for key in keys])
    return {(row["batch_id"], row["stem"]): row["state"] for row in rows}


SAVE_LISTS: Final = """
    INSERT INTO followed_lists (batch_id, stem, state)
    SELECT n.batch_id, n.stem, n.state::jsonb FROM unnest($1::bigint[], $2::text[], $3::text[]) AS n(batch_id, stem, state)
     ORDER BY n.batch_id, n.stem
    ON CONFLICT (batch_id, stem) DO UPDATE SET state = excluded.state
"""


async def save_lists(conn: Conn, states: Mapping[tuple[int, str], str]) -> None:
    await conn.execute(SAVE_LISTS, [key[0] for key in states], [key[1] for key in states], list(states.values()))
