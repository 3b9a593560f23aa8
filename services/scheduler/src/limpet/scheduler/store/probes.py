"""Addresses that may be archives, and one for each domain that cannot exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from limpet.kit.pg import Conn, Record

ADD_PROBES: Final = """
    INSERT INTO probes (task_id, domain_id, url, is_canary)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[]) ON CONFLICT (task_id) DO NOTHING
"""


async def add_probes(conn: Conn, probes: Sequence[tuple[int, int, str, bool]]) -> None:
    """(task, domain, URL, whether it cannot exist)."""
    await conn.execute(
        ADD_PROBES,
        [one[0] for one in probes],
        [one[1] for one in probes],
        [one[2] for one in probes],
        [one[3] for one in probes],
    )


@dataclass(frozen=True)
class Answered:
    """What came of a probe."""

    task_id: int
    state: str
    http_status: int | None
    fingerprint: bytes
    simhash: int
    says_empty: bool


ANSWER_PROBES: Final = """
    UPDATE probes p
       SET state = a.state, http_status = a.http_status, fingerprint = a.fingerprint, simhash = a.simhash,
           says_empty = a.says_empty
      FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::bytea[], $5::bigint[], $6::boolean[])
               AS a(task_id, state, http_status, fingerprint, simhash, says_empty)
     WHERE p.task_id = a.task_id
"""


async def answer_probes(conn: Conn, answers: Sequence[Answered]) -> None:
    """Their tasks are locked by the caller."""
    await conn.execute(
        ANSWER_PROBES,
        [one.task_id for one in answers],
        [one.state for one in answers],
        [one.http_status for one in answers],
        [one.fingerprint for one in answers],
        # PostgreSQL's numbers have a sign.
        [one.simhash - (1 << 64) if one.simhash >= 1 << 63 else one.simhash for one in answers],
        [one.says_empty for one in answers],
    )


# A domain is looked at when its canary has been answered, one way or the other.
PROBES_TO_JUDGE: Final = """
    SELECT p.task_id, p.domain_id, p.url, p.is_canary, p.state, p.fingerprint, p.simhash, p.says_empty FROM probes p
     WHERE p.domain_id IN (SELECT a.domain_id FROM probes a WHERE a.state = 'answered' AND NOT a.is_canary LIMIT $1)
       AND (p.is_canary OR p.state = 'answered')
"""


async def probes_to_judge(conn: Conn, *, limit: int) -> list[Record]:
    return await conn.fetch(PROBES_TO_JUDGE, limit)


JUDGE_PROBES: Final = """
    UPDATE probes p SET state = j.state FROM unnest($1::bigint[], $2::text[]) AS j(task_id, state)
     WHERE p.task_id = j.task_id AND p.state = 'answered'
    RETURNING p.task_id
"""


async def judge_probes(conn: Conn, states: Mapping[int, str]) -> list[int]:
    """Those of them that nobody else has judged."""
    return [row["task_id"] for row in await conn.fetch(JUDGE_PROBES, list(states), list(states.values()))]
