"""Items as they are read back: in the order they were first stored, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from limpet.kit.pg import Conn


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """None means any."""

    domain: str | None = None
    batch: str | None = None
    parser: str | None = None
    task_id: int | None = None


class StoredItem(NamedTuple):
    item_id: int
    task_id: int
    attempt: int
    url: str
    domain: str
    batch: str
    parser: str
    parser_version: str
    page_type: str
    # JSON text.
    data: str
    scraped_at: datetime


# Each combination of filters deserves its own plan; one for all of them would walk the whole table.
PLAN_EACH: Final = "SET LOCAL plan_cache_mode = force_custom_plan"

# The join on the attempt hides rows of an attempt that lost the race for its task.
LIST_ITEMS: Final = """
    SELECT item.item_id, item.task_id, item.attempt, page.url, item.domain, item.batch, page.parser,
           page.parser_version, page.page_type, item.data::text AS data, page.scraped_at
      FROM items AS item
      JOIN pages AS page ON page.task_id = item.task_id AND page.attempt = item.attempt
     WHERE item.item_id > $1
       AND ($2::text IS NULL OR item.domain = $2)
       AND ($3::text IS NULL OR item.batch = $3)
       AND ($4::text IS NULL OR page.parser = $4)
       AND ($5::bigint IS NULL OR item.task_id = $5)
     ORDER BY item.item_id
     LIMIT $6
"""


async def list_items(conn: Conn, *, wanted: ItemFilter, after: int, limit: int) -> list[StoredItem]:
    async with conn.transaction(readonly=True):
        await conn.execute(PLAN_EACH)
        rows = await conn.fetch(LIST_ITEMS, after, wanted.domain, wanted.batch, wanted.parser, wanted.task_id, limit)
    return [StoredItem(*row) for row in rows]
