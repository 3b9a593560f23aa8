"""Answers of sites, one row per attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True, slots=True)
class Response:
    task_id: int
    attempt: int
    domain: str
    url: str
    http_status: int
    content_type: str
    size_bytes: int
    body_key: str
    response_ms: int
    verdict: str
    reason: str
    fetched_at: datetime


# A repeat changes nothing: the first answer of an attempt is the one. Of bodies that were stored at the same moment the
# first one is remembered; the other stays reachable under its own key.
RESPONSES_ADD: Final = """
    WITH stored AS (
        INSERT INTO bodies (digest, body_key, size_bytes)
        SELECT * FROM unnest($13::bytea[], $14::text[], $15::integer[]) AS found(digest, body_key, size_bytes)
         ORDER BY found.digest
        ON CONFLICT (digest) DO NOTHING
    )
    INSERT INTO http_responses (
        task_id, attempt, domain, url, http_status, content_type, size_bytes, body_key, response_ms, verdict, reason,
        fetched_at
    )
    SELECT * FROM unnest(
        $1::bigint[], $2::integer[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::integer[], $8::text[],
        $9::integer[], $10::text[], $11::text[], $12::timestamptz[]
    )
    ON CONFLICT (task_id, attempt) DO NOTHING
"""


async def add(conn: Conn, responses: Sequence[Response], *, bodies: Sequence[tuple[bytes, str, int]]) -> None:
    """Rows of answers, with the digest, key and size of each body that is new among them."""
    columns = zip(*map(_columns, responses), strict=True)
    await conn.execute(RESPONSES_ADD, *columns, *([body[place] for body in bodies] for place in range(3)))


def _columns(row: Response) -> tuple[object, ...]:
    return (
        row.task_id,
        row.attempt,
        row.domain,
        row.url,
        row.http_status,
        row.content_type,
        row.size_bytes,
        row.body_key,
        row.response_ms,
        row.verdict,
        row.reason,
        row.fetched_at,
    )
