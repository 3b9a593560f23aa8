"""How often fields are filled, hour by hour, and what is usual for each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from limpet.kit.pg import Conn

_TURN: Final = 7_463_921


class HourRow(NamedTuple):
    domain: str
    parser: str
    hour: datetime
    field: str
    seen: int
    filled: int


class FieldState(NamedTuple):
    field_id: int
    domain: str
    parser: str
    field: str
    baseline: float
    weight: float
    rate: float
    seen: int
    judged_hour: datetime
    hour: datetime
    dropped_at: datetime | None


ADD_HOURS: Final = """
    WITH counted AS (
        SELECT * FROM unnest(
            $1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::bigint[], $6::bigint[]
        ) AS counted (domain, parser, hour, field, seen, filled)
    ), known AS (
        INSERT INTO quality_fields (domain, parser, field, judged_hour, hour)
        SELECT domain, parser, field, min(hour), min(hour) FROM counted GROUP BY domain, parser, field
         ORDER BY domain, parser, field
        ON CONFLICT DO NOTHING
    )
    INSERT INTO quality_hours AS sum (domain, parser, hour, field, seen, filled)
    SELECT domain, parser, hour, field, seen, filled FROM counted ORDER BY domain, parser, hour, field
    ON CONFLICT (domain, parser, hour, field) DO UPDATE
       SET seen = sum.seen + excluded.seen, filled = sum.filled + excluded.filled
"""


async def add_hours(conn: Conn, rows: Sequence[HourRow]) -> None:
    await conn.execute(ADD_HOURS, *([row[place] for row in rows] for place in range(len(HourRow._fields))))


QUALITY_TAKE_TURN: Final = "SELECT pg_try_advisory_xact_lock($1)"


async def take_turn(conn: Conn) -> bool:
    """False while another parser is at it. Held until the transaction ends."""
    return bool(await conn.fetchval(QUALITY_TAKE_TURN, _TURN))


# Hours that are over, oldest first; their rows may come a little late.
HOURS_OVER: Final = """
    WITH over AS (
        SELECT domain, parser, hour FROM quality_hours
         WHERE field = '*' AND NOT judged AND hour < $1
         ORDER BY hour, domain, parser
         LIMIT $2
    ), marked AS (
        UPDATE quality_hours AS row SET judged = true FROM over
         WHERE row.domain = over.domain AND row.parser = over.parser AND row.hour = over.hour AND row.field = '*'
    )
    SELECT domain, parser, hour, field, seen, filled
      FROM quality_hours JOIN over USING (domain, parser, hour)
     ORDER BY hour, domain, parser, field
"""


async def hours_over(conn: Conn, *, before: datetime, limit: int) -> list[HourRow]:
    """Those that nobody has judged, and marks them."""
    return [HourRow(*row) for row in await conn.fetch(HOURS_OVER, before, limit)]


HOURS_OPEN: Final = """
    SELECT row.domain, row.parser, row.hour, row.field, row.seen, row.filled
      FROM quality_hours AS row
      JOIN quality_hours AS pages ON pages.domain = row.domain AND pages.parser = row.parser
       AND pages.hour = row.hour AND pages.field = '*'
     WHERE pages.hour >= $1 AND pages.seen >= $2 AND NOT pages.judged
     ORDER BY row.domain, row.parser, row.hour
     LIMIT $3
"""


async def hours_open(conn: Conn, *, since: datetime, least: int, limit: int) -> list[HourRow]:
    """Of an hour that goes on, where there is enough already."""
    return [HourRow(*row) for row in await conn.fetch(HOURS_OPEN, since, least, limit)]


FIELDS_OF: Final = """
    SELECT field_id, domain, parser, field, baseline, weight, rate, seen, judged_hour, hour, dropped_at
      FROM quality_fields
      JOIN (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS pair (domain, parser)) AS pair USING (domain, parser)
"""


async def fields_of(conn: Conn, pairs: Sequence[tuple[str, str]]) -> list[FieldState]:
    rows = await conn.fetch(FIELDS_OF, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return [FieldState(*row) for row in rows]


SAVE_FIELDS: Final = """
    UPDATE quality_fields AS known
       SET baseline = new.baseline, weight = new.weight, rate = new.rate, seen = new.seen,
           judged_hour = new.judged_hour, hour = new.hour, dropped_at = new.dropped_at,
           told = known.told AND (known.dropped_at IS NULL) = (new.dropped_at IS NULL)
      FROM unnest(
          $1::bigint[], $2::float8[], $3::float8[], $4::float8[], $5::bigint[], $6::timestamptz[], $7::timestamptz[],
          $8::timestamptz[]
      ) AS new (field_id, baseline, weight, rate, seen, judged_hour, hour, dropped_at)
     WHERE known.field_id = new.field_id
"""


async def save_fields(conn: Conn, states: Sequence[FieldState]) -> None:
    """What changes between dropped and not is to be announced."""
    columns = zip(*((state.field_id, *state[4:]) for state in states), strict=True)
    await conn.execute(SAVE_FIELDS, *(list(column) for column in columns))


UNTOLD_FIELDS: Final = """
    SELECT field_id, domain, parser, field, baseline, weight, rate, seen, judged_hour, hour, dropped_at
      FROM quality_fields WHERE NOT told ORDER BY field_id LIMIT $1
"""


async def untold_fields(conn: Conn, *, limit: int) -> list[FieldState]:
    return [FieldState(*row) for row in await conn.fetch(UNTOLD_FIELDS, limit)]


# What has changed again since it was read stays to be told.
MARK_TOLD: Final = """
    UPDATE quality_fields AS known SET told = true
      FROM unnest($1::bigint[], $2::boolean[]) AS told (field_id, dropped)
     WHERE known.field_id = told.field_id AND (known.dropped_at IS NOT NULL) = told.dropped
"""


async def mark_told(conn: Conn, states: Sequence[FieldState]) -> None:
    await conn.execute(
        MARK_TOLD, [state.field_id for state in states], [state.dropped_at is not None for state in states]
    )


COUNT_DROPPED: Final = "SELECT count(*) FROM quality_fields WHERE dropped_at IS NOT NULL"


async def count_dropped(conn: Conn) -> int:
    return int(await conn.fetchval(COUNT_DROPPED))


LIST_FIELDS: Final = """
    SELECT field_id, domain, parser, field, baseline, weight, rate, seen, judged_hour, hour, dropped_at
      FROM quality_fields
     WHERE field_id > $1 AND ($2::text IS NULL OR domain = $2) AND ($3::text IS NULL OR parser = $3)
       AND ($4::text IS NULL OR field = $4) AND ($5::boolean IS NULL OR (dropped_at IS NOT NULL) = $5)
     ORDER BY field_id
     LIMIT $6
"""


async def list_fields(
    conn: Conn,
    *,
    domain: str | None,
    parser: str | None,
    field: str | None,
    dropped: bool | None,
    after: int,
    limit: int,
) -> list[FieldState]:
    rows = await conn.fetch(LIST_FIELDS, after, domain, parser, field, dropped, limit)
    return [FieldState(*row) for row in rows]


HOURS_OF: Final = """
    SELECT row.domain, row.parser, row.hour, row.field, row.seen, row.filled
      FROM quality_fields AS state
      JOIN quality_hours AS row ON row.domain = state.domain AND row.parser = state.parser AND row.field = state.field
     WHERE state.field_id = ANY ($1::bigint[]) AND row.hour > now() - $2::interval
     ORDER BY row.hour
"""


async def hours_of(conn: Conn, field_ids: Sequence[int], *, within: timedelta) -> list[HourRow]:
    return [HourRow(*row) for row in await conn.fetch(HOURS_OF, field_ids, within)]


PRUNE_HOURS: Final = """
    WITH old AS (
        SELECT domain, parser, hour, field FROM quality_hours WHERE hour < now() - $1::interval LIMIT $2
    )
    DELETE FROM quality_hours AS row USING old
     WHERE row.domain = old.domain AND row.parser = old.parser AND row.hour = old.hour AND row.field = old.field
"""


async def prune_hours(conn: Conn, *, older_than: timedelta, limit: int) -> int:
    return int((await conn.execute(PRUNE_HOURS, older_than, limit)).split()[-1])


PRUNE_FIELDS: Final = """
    WITH old AS (SELECT field_id FROM quality_fields WHERE hour < now() - $1::interval LIMIT $2)
    DELETE FROM quality_fields AS state USING old WHERE state.field_id = old.field_id
"""


async def prune_fields(conn: Conn, *, older_than: timedelta, limit: int) -> int:
    return int((await conn.execute(PRUNE_FIELDS, older_than, limit)).split()[-1])
