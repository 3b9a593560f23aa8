"""When runs begin by themselves."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from limpet.kit.pg import Conn, Record

ADD_SCHEDULE: Final = """
    INSERT INTO run_schedules (name, domain_id, cron, zone, is_active, wish, next_run_at)
    SELECT $1, domain_id, $3, $4, $5, $6::jsonb, $7 FROM domains WHERE name = $2
    ON CONFLICT (name) DO NOTHING
    RETURNING schedule_id
"""


async def add_schedule(
    conn: Conn, name: str, *, site: str, cron: str, zone: str, is_active: bool, wish: str, next_run_at: datetime
) -> int | None:
    """None when one of that name exists, or no such site."""
    found: int | None = await conn.fetchval(ADD_SCHEDULE, name, site, cron, zone, is_active, wish, next_run_at)
    return found


CHANGE_SCHEDULE: Final = """
    UPDATE run_schedules SET cron = $2, zone = $3, is_active = $4, wish = $5::jsonb, next_run_at = $6, updated_at = now()
     WHERE name = $1 RETURNING schedule_id
"""


async def change_schedule(
    conn: Conn, name: str, *, cron: str, zone: str, is_active: bool, wish: str, next_run_at: datetime
) -> bool:
    return await conn.fetchval(CHANGE_SCHEDULE, name, cron, zone, is_active, wish, next_run_at) is not None


GET_SCHEDULE: Final = """
    SELECT s.*, d.name AS site FROM run_schedules s JOIN domains d USING (domain_id) WHERE s.name = $1
"""


async def get_schedule(conn: Conn, name: str) -> Record | None:
    return await conn.fetchrow(GET_SCHEDULE, name)


LIST_SCHEDULES: Final = """
    SELECT s.*, d.name AS site FROM run_schedules s JOIN domains d USING (domain_id)
     WHERE s.name > $1 ORDER BY s.name LIMIT $2
"""


async def list_schedules(conn: Conn, *, after: str, limit: int) -> list[Record]:
    return await conn.fetch(LIST_SCHEDULES, after, limit)


DROP_SCHEDULE: Final = """
    DELETE FROM run_schedules WHERE name = $1 RETURNING schedule_id
"""


async def drop_schedule(conn: Conn, name: str) -> bool:
    return await conn.fetchval(DROP_SCHEDULE, name) is not None


DUE_SCHEDULE: Final = """
    SELECT s.*, d.name AS site, clock_timestamp() AS now FROM run_schedules s JOIN domains d USING (domain_id)
     WHERE s.is_active AND s.next_run_at <= now() ORDER BY s.next_run_at LIMIT 1 FOR UPDATE OF s SKIP LOCKED
"""


async def due_schedule(conn: Conn) -> Record | None:
    """The one that waits longest, locked: two schedulers never begin the same."""
    return await conn.fetchrow(DUE_SCHEDULE)


SCHEDULE_RAN: Final = """
    UPDATE run_schedules SET next_run_at = $2, last_run_at = now(), last_run_id = $3 WHERE schedule_id = $1
"""


async def schedule_ran(conn: Conn, schedule_id: int, *, next_run_at: datetime, run_id: UUID) -> None:
    await conn.execute(SCHEDULE_RAN, schedule_id, next_run_at, run_id)
