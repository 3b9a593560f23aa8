"""Announce: what happened to proxies goes to the bus, once it is committed, in order, and never lost."""

from __future__ import annotations

from limpet.contracts.events.v1.proxy_pb2 import ProxyChanged
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.outbox import BATCH, Outbox
from limpet.kit.pg import Conn, Pool
from limpet.proxy_broker.store import changes


class Announce(Outbox):
    """The table `changes` is the outbox."""

    def __init__(self, pool: Pool, bus: Bus) -> None:
        super().__init__(pool, self._publish)
        self._bus = bus

    async def _publish(self, conn: Conn) -> int:
        if not await changes.be_alone(conn):
            return 0
        found = await changes.list_oldest(conn, limit=BATCH)
        for change in found:
            message = ProxyChanged(
                proxy_id=change.proxy_id,
                active=change.active,
                removed=change.removed,
                reason=change.reason,
                changed_time=to_stamp(change.changed_at),
            )
            await self._bus.publish(message, key=f"proxy-changed:{change.change_id}", suffix=str(change.proxy_id))
        if found:
            await changes.done(conn, change_ids=[change.change_id for change in found])
        return len(found)
