"""Every change of a domain is an event, so that other services keep their own copy."""

from __future__ import annotations

from limpet.contracts.events.v1.domain_pb2 import DomainChanged
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.outbox import BATCH, Outbox
from limpet.kit.pg import Conn, Pool, Record
from limpet.scheduler.dispatch import POLICIES
from limpet.scheduler.store.domain_changes import add_change, be_alone, drop_changes, list_changes


class Announce(Outbox):
    """The table `domain_changes` is the outbox."""

    def __init__(self, pool: Pool, bus: Bus) -> None:
        super().__init__(pool, self._publish)
        self._bus = bus

    async def _publish(self, conn: Conn) -> int:
        if not await be_alone(conn):
            return 0
        found = await list_changes(conn, limit=BATCH)
        for change in found:
            event = DomainChanged.FromString(change.event)
            await self._bus.publish(event, key=f"domain-changed:{change.change_id}", suffix=str(change.domain_id))
        if found:
            await drop_changes(conn, [change.change_id for change in found])
        return len(found)


async def note_change(conn: Conn, row: Record, *, deleted: bool = False) -> None:
    """In the transaction that changed the domain."""
    event = DomainChanged(
        name=row["name"],
        base_url=row["base_url"],
        parser=row["parser_name"],
        crawl_delay_seconds=row["crawl_delay_seconds"],
        max_concurrent_requests=row["max_concurrent_requests"],
        active=row["is_active"],
        user_agent=row["user_agent"],
        proxy_policy=POLICIES[row["proxy_policy"]],
        http2=row["http2"],
        shadow=row["validation"] == "shadow",
        deleted=deleted,
        changed_time=to_stamp(row["updated_at"]),
    )
    await add_change(conn, row["domain_id"], event.SerializeToString())
