"""How the lists of a domain are numbered, learned from those that were crawled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from limpet.kit.pg import Conn, Record


@dataclass(frozen=True)
class Learned:
    """What one list has shown about one way of numbering."""

    domain_id: int
    path_pattern: str
    style: str
    key: str
    step: int
    state: str
    exhausted_at: int | None
    worked: int
    missed: int


GET_RULES: Final = """
    SELECT domain_id, path_pattern, style, key, step, state, exhausted_at, worked, missed FROM pagination_rules
     WHERE domain_id = ANY($1::bigint[]) ORDER BY worked DESC, rule_id LIMIT 1000
"""


async def get_rules(conn: Conn, domain_ids: Sequence[int]) -> list[Learned]:
    return [Learned(*row) for row in await conn.fetch(GET_RULES, list(domain_ids))]


# What has ever worked is not invalid because one list does without it.
LEARN_RULES: Final = """
    INSERT INTO pagination_rules AS r (domain_id, path_pattern, style, key, step, state, exhausted_at, worked, missed)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::int[], $8::bigint[],
                         $9::bigint[])
               AS n(domain_id, path_pattern, style, key, step, state, exhausted_at, worked, missed)
     ORDER BY domain_id, path_pattern, style, key
    ON CONFLICT (domain_id, path_pattern, style, key) DO UPDATE
       SET step = CASE WHEN excluded.worked > 0 THEN excluded.step ELSE r.step END,
           state = CASE WHEN excluded.state = 'invalid' AND r.worked > 0 THEN r.state ELSE excluded.state END,
           exhausted_at = coalesce(excluded.exhausted_at, r.exhausted_at),
           worked = r.worked + excluded.worked, missed = r.missed + excluded.missed, updated_at = now()
"""


async def learn_rules(conn: Conn, learned: Sequence[Learned]) -> None:
    """The domains are locked by the caller."""
    await conn.execute(
        LEARN_RULES,
        [one.domain_id for one in learned],
        [one.path_pattern for one in learned],
        [one.style for one in learned],
        [one.key for one in learned],
        [one.step for one in learned],
        [one.state for one in learned],
        [one.exhausted_at for one in learned],
        [one.worked for one in learned],
        [one.missed for one in learned],
    )


LIST_RULES: Final = """
    SELECT r.*, d.name AS domain FROM pagination_rules r JOIN domains d USING (domain_id)
     WHERE r.rule_id > $1 AND ($2::text IS NULL OR d.name = $2) ORDER BY r.rule_id LIMIT $3
"""


async def list_rules(conn: Conn, *, domain: str | None, after: int, limit: int) -> list[Record]:
    return await conn.fetch(LIST_RULES, after, domain, limit)


FORGET_RULE: Final = """
    DELETE FROM pagination_rules WHERE rule_id = $1 RETURNING rule_id
"""


async def forget_rule(conn: Conn, rule_id: int) -> bool:
    return await conn.fetchval(FORGET_RULE, rule_id) is not None
