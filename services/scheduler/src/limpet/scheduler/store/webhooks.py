"""Webhook deliveries: what must still be told to whom, and what became of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from limpet.kit.pg import Conn, Record


@dataclass(frozen=True)
class Delivery:
    delivery_id: UUID
    url: str
    endpoint: str
    event: str
    body: str


@dataclass(frozen=True)
class Claim(Delivery):
    """Leased to us. The number of the try is the fence."""

    tries: int


@dataclass(frozen=True)
class Finished:
    delivery_id: UUID
    tries: int
    state: str
    # Seconds until the next try of a pending one.
    wait: float
    last_status: int | None
    last_error: str | None


ADD_DELIVERIES: Final = """
    INSERT INTO webhook_deliveries (delivery_id, url, endpoint, event, body)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[])
    ON CONFLICT (delivery_id) DO NOTHING
"""


async def add_deliveries(conn: Conn, deliveries: Sequence[Delivery]) -> None:
    """In the transaction of what they tell about: both are kept, or neither."""
    if deliveries:
        columns = [[getattr(row, name) for row in deliveries] for name in Delivery.__dataclass_fields__]
        await conn.execute(ADD_DELIVERIES, *columns)


# Endpoint by endpoint along the index, so that a long queue for one is neither read through nor in the way of the others.
# The last look at the row is the one that counts: somebody may have claimed it since.
CLAIM_DELIVERIES: Final = """
    WITH RECURSIVE endpoints AS (
        (SELECT endpoint FROM webhook_deliveries WHERE state = 'pending' ORDER BY endpoint LIMIT 1)
        UNION ALL
        SELECT (SELECT w.endpoint FROM webhook_deliveries w WHERE w.state = 'pending' AND w.endpoint > e.endpoint
                 ORDER BY w.endpoint LIMIT 1)
          FROM endpoints e WHERE e.endpoint IS NOT NULL
    ), due AS (
        SELECT first.delivery_id
          FROM endpoints e
         CROSS JOIN LATERAL (
             SELECT w.delivery_id FROM webhook_deliveries w
              WHERE w.state = 'pending' AND w.endpoint = e.endpoint AND w.next_try_at <= now()
              ORDER BY w.next_try_at LIMIT $2
         ) AS first
         WHERE e.endpoint <> ALL($4::text[])
    ), claimed AS (
        SELECT w.delivery_id FROM webhook_deliveries w JOIN due USING (delivery_id)
         WHERE w.state = 'pending' AND w.next_try_at <= now()
         ORDER BY w.next_try_at LIMIT $1
           FOR UPDATE OF w SKIP LOCKED
    )
    UPDATE webhook_deliveries w
       SET tries = w.tries + 1, next_try_at = now() + $3::interval, leased_until = now() + $3::interval
      FROM claimed WHERE w.delivery_id = claimed.delivery_id
    RETURNING w.delivery_id, w.url, w.endpoint, w.event, w.body, w.tries
"""


async def claim_deliveries(
    conn: Conn, *, limit: int, per_endpoint: int, lease: timedelta, resting: Sequence[str] = ()
) -> list[Claim]:
    """Lease up to `limit` due ones. Nobody else gets them before the lease has passed; then they are due again."""
    rows = await conn.fetch(CLAIM_DELIVERIES, limit, per_endpoint, lease, list(resting))
    return [Claim(**row) for row in rows]


# A try whose lease has passed changes nothing any more, unless it was the good one.
FINISH_DELIVERIES: Final = """
    UPDATE webhook_deliveries w
       SET state = done.state, last_status = done.status, last_error = done.error, leased_until = NULL,
           next_try_at = CASE WHEN done.state = 'pending' THEN now() + make_interval(secs => done.wait) ELSE w.next_try_at END,
           delivered_at = CASE WHEN done.state = 'delivered' THEN now() END
      FROM unnest($1::uuid[], $2::int[], $3::text[], $4::float8[], $5::smallint[], $6::text[])
           AS done(delivery_id, tries, state, wait, status, error)
     WHERE w.delivery_id = done.delivery_id AND w.state = 'pending' AND (w.tries = done.tries OR done.state = 'delivered')
"""


async def finish_deliveries(conn: Conn, done: Sequence[Finished]) -> None:
    if done:
        columns = [[getattr(row, name) for row in done] for name in Finished.__dataclass_fields__]
        await conn.execute(FINISH_DELIVERIES, *columns)


LIST_DELIVERIES: Final = """
    SELECT * FROM webhook_deliveries
     WHERE delivery_id > $1 AND ($2::text IS NULL OR state = $2)
     ORDER BY delivery_id LIMIT $3
"""


async def list_deliveries(conn: Conn, *, after: UUID, state: str | None, limit: int) -> list[Record]:
    return await conn.fetch(LIST_DELIVERIES, after, state, limit)


GET_DELIVERY: Final = """
    SELECT * FROM webhook_deliveries WHERE delivery_id = $1
"""


async def get_delivery(conn: Conn, delivery_id: UUID) -> Record | None:
    return await conn.fetchrow(GET_DELIVERY, delivery_id)


RETRY_DELIVERY: Final = """
    UPDATE webhook_deliveries
       SET state = 'pending', tries = 0, next_try_at = now(), leased_until = NULL
     WHERE delivery_id = $1
       AND (state = 'dead' OR (state = 'pending' AND (leased_until IS NULL OR leased_until <= now())))
    RETURNING *
"""


async def retry_delivery(conn: Conn, delivery_id: UUID) -> Record | None:
    """Due at once, with all its tries again. None for one that was delivered, is being sent, or does not exist."""
    return await conn.fetchrow(RETRY_DELIVERY, delivery_id)


PRUNE_DELIVERIES: Final = """
    DELETE FROM webhook_deliveries
     WHERE delivery_id IN (SELECT delivery_id FROM webhook_deliveries
                            WHERE state <> 'pending' AND created_at < now() - $1::interval ORDER BY created_at LIMIT $2)
    RETURNING delivery_id
"""


async def prune_deliveries(conn: Conn, *, older_than: timedelta, limit: int) -> int:
    """Forget up to `limit` old ones that are over. Returns how many there were."""
    return len(await conn.fetch(PRUNE_DELIVERIES, older_than, limit))
