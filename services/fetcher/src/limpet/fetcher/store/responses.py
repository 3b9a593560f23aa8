"""Answers of sites, one row per attempt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from limpet.kit.pg import Conn


class Response(NamedTuple):
    """In the order of the statement below."""

    task_id: int
    attempt: int
    domain: str
    url: str
    http_status: int
    content_type: str
    size_bytes: int
    response_ms: int
    verdict: str
    reason: str
    fetched_at: datetime
    body_key: str = ""
    vendor: str = ""
    score: int = 0
    # One a line.
    signals: str = ""
    shadow: bool = False


# A repeat changes nothing: the first answer of an attempt is the one. Of bodies that were stored at the same moment the
# first one is remembered; the other stays reachable under its own key. A pack that is in use is not looked at twice a day.
RESPONSES_ADD: Final = """
    WITH stored AS (
        INSERT INTO bodies (digest, body_key, size_bytes)
        SELECT * FROM unnest($17::bytea[], $18::text[], $19::integer[]) AS found(digest, body_key, size_bytes)
         ORDER BY found.digest
        ON CONFLICT (digest) DO NOTHING
    ), used AS (
        INSERT INTO packs AS known (pack)
        SELECT pack FROM (SELECT DISTINCT split_part(key, '#', 1) AS pack FROM unnest($12::text[]) AS kept (key)) AS found
         WHERE pack <> '' AND NOT EXISTS (
             SELECT FROM packs AS fresh
              WHERE fresh.pack = found.pack AND last_used_at > now() - interval '1 day' AND condemned_at IS NULL
         )
         ORDER BY pack
        ON CONFLICT (pack) DO UPDATE SET last_used_at = now(), condemned_at = NULL
    )
    INSERT INTO http_responses (
        task_id, attempt, domain, url, http_status, content_type, size_bytes, response_ms, verdict, reason, fetched_at,
        body_key, vendor, score, signals, shadow
    )
    SELECT task_id, attempt, domain, url, http_status, content_type, size_bytes, response_ms, verdict, reason, fetched_at,
           body_key, vendor, score, string_to_array(signals, chr(10)), shadow
      FROM unnest(
        $1::bigint[], $2::integer[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::integer[], $8::integer[],
        $9::text[], $10::text[], $11::timestamptz[], $12::text[], $13::text[], $14::integer[], $15::text[],
        $16::boolean[]
      ) AS answer (task_id, attempt, domain, url, http_status, content_type, size_bytes, response_ms, verdict, reason,
                   fetched_at, body_key, vendor, score, signals, shadow)
    ON CONFLICT (task_id, attempt) DO NOTHING
"""


async def add(conn: Conn, responses: Sequence[Response], *, bodies: Sequence[tuple[bytes, str, int]]) -> None:
    """Rows of answers, with the digest, key and size of each body that is new among them."""
    columns = zip(*responses, strict=True)
    await conn.execute(RESPONSES_ADD, *columns, *([body[place] for body in bodies] for place in range(3)))


RESPONSES_PRUNE: Final = """
    DELETE FROM http_responses WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM http_responses WHERE fetched_at < now() - $1::interval LIMIT $2
    ))
"""


async def prune(conn: Conn, *, older_than: timedelta, limit: int) -> int:
    return int((await conn.execute(RESPONSES_PRUNE, older_than, limit)).rpartition(" ")[2])
