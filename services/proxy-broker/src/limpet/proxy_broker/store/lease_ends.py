"""Table leases: how they end, by a report or by their time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.literals import numbers
from limpet.proxy_broker.tally import Ended

CLOSE: Final = """
    DELETE FROM leases
     WHERE lease_id = ANY($1::text::bigint[]) AND (proxy_id IS NULL OR proxy_id = ANY($2::text::bigint[]))
 RETURNING lease_id, proxy_id, domain, probe, statement_timestamp()
"""


async def close(
    conn: Conn, *, lease_ids: Sequence[int], proxy_ids: Sequence[int]
) -> tuple[dict[int, Ended], datetime | None]:
    """Close leases of these locked proxies and of none, and say when. Those closed before are not among them."""
    rows = await conn.fetch(CLOSE, numbers(lease_ids), numbers(proxy_ids))
    return {row[0]: Ended(row[1], row[2], row[3]) for row in rows}, rows[0][4] if rows else None


EXPIRED: Final = """
    SELECT lease_id, proxy_id FROM leases WHERE expires_at <= statement_timestamp() ORDER BY expires_at LIMIT $1
"""


async def expired(conn: Conn, *, limit: int) -> dict[int, int | None]:
    """Lease and proxy of holders that never came back."""
    return {row["lease_id"]: row["proxy_id"] for row in await conn.fetch(EXPIRED, limit)}
