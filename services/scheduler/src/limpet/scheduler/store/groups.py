"""Groups of a domain: how many of each are in flight, how many may be, and whether any are due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn
from limpet.scheduler.store.queues import Due


@dataclass
class Group:
    domain_id: int
    group_key: str
    in_flight: int
    bearable: float
    shrunk_at: datetime | None
    limit_now: int


OPEN_GROUPS: Final = """
    WITH grouped AS (
        UPDATE domains SET grouped = true WHERE domain_id = ANY($1::bigint[]) AND NOT grouped
    )
    INSERT INTO domain_groups AS g (domain_id, group_key, limit_now, head_priority)
    SELECT n.domain_id, n.group_key, d.max_per_group, n.priority
      FROM unnest($1::bigint[], $2::text[], $3::smallint[]) AS n(domain_id, group_key, priority) JOIN domains d USING (domain_id)
     ORDER BY n.domain_id, n.group_key
    ON CONFLICT (domain_id, group_key) DO UPDATE
       SET has_due = true, head_priority = least(g.head_priority, excluded.head_priority)
     WHERE NOT g.has_due OR g.head_priority > excluded.head_priority
"""


async def open_groups(conn: Conn, due: Iterable[tuple[int, str | None, int]]) -> None:
    """Something of these groups is due: (domain, group, priority). Domains are locked by the caller."""
    first: dict[tuple[int, str], int] = {}
    for domain_id, group, priority in due:
        if group:
            first[(domain_id, group)] = min(priority, first.get((domain_id, group), priority))
    if first:
        keys = list(first)
        await conn.execute(OPEN_GROUPS, [key[0] for key in keys], [key[1] for key in keys], list(first.values()))


SERVE_GROUPS: Final = """
    UPDATE domain_groups g SET in_flight = g.in_flight + s.count, served_at = now(), head_priority = s.priority
      FROM unnest($1::bigint[], $2::text[], $3::int[], $4::smallint[]) AS s(domain_id, group_key, count, priority)
     WHERE g.domain_id = s.domain_id AND g.group_key = s.group_key
"""


async def serve_groups(conn: Conn, granted: Sequence[Due]) -> None:
    """Count what was granted against its groups."""
    counts: dict[tuple[int, str], tuple[int, int]] = {}
    for due in granted:
        if due.group_key:
            count, priority = counts.get((due.domain_id, due.group_key), (0, 0))
            counts[(due.domain_id, due.group_key)] = (count + 1, max(priority, due.priority))
    if counts:
        await conn.execute(
            SERVE_GROUPS,
            [key[0] for key in counts],
            [key[1] for key in counts],
            [count for count, _ in counts.values()],
            [priority for _, priority in counts.values()],
        )


CLOSE_GROUPS: Final = """
    UPDATE domain_groups g SET has_due = false
      FROM unnest($1::bigint[], $2::text[]) AS e(domain_id, group_key)
     WHERE g.domain_id = e.domain_id AND g.group_key = e.group_key
"""


async def close_groups(conn: Conn, empty: Sequence[tuple[int, str]]) -> None:
    groups = [key for key in empty if key[1]]
    if groups:
        await conn.execute(CLOSE_GROUPS, [key[0] for key in groups], [key[1] for key in groups])


LOCK_GROUPS: Final = """
    SELECT g.domain_id, g.group_key, g.in_flight, g.bearable, nullif(g.shrunk_at, '-infinity'), g.limit_now
      FROM domain_groups g
      JOIN unnest($1::bigint[], $2::text[]) AS k(domain_id, group_key) USING (domain_id, group_key)
     ORDER BY g.domain_id, g.group_key FOR NO KEY UPDATE OF g
"""


async def lock_groups(conn: Conn, keys: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Group]:
    rows = await conn.fetch(LOCK_GROUPS, [key[0] for key in keys], [key[1] for key in keys])
    return {(row[0], row[1]): Group(*row) for row in rows}


SAVE_GROUPS: Final = """
    UPDATE domain_groups g
       SET in_flight = s.in_flight, bearable = s.bearable, shrunk_at = coalesce(s.shrunk_at, '-infinity'), limit_now = s.limit_now
      FROM unnest($1::bigint[], $2::text[], $3::int[], $4::float8[], $5::timestamptz[], $6::int[])
           AS s(domain_id, group_key, in_flight, bearable, shrunk_at, limit_now)
     WHERE g.domain_id = s.domain_id AND g.group_key = s.group_key
"""


async def save_groups(conn: Conn, groups: Sequence[Group]) -> None:
    if groups:
        names = tuple(Group.__dataclass_fields__)
        await conn.execute(SAVE_GROUPS, *([getattr(group, name) for group in groups] for name in names))
