"""Domains as the scheduler announces them: an alert must know those that have no proxy at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from limpet.contracts.events.v1.domain_pb2 import DomainChanged
from limpet.contracts.events.v1.fetch_pb2 import ProxyPolicy
from limpet.kit.clock import EPOCH, to_datetime
from limpet.kit.delivery import Delivery
from limpet.kit.pg import Pool
from limpet.proxy_broker.store import domains

POLICIES: Final = {
    ProxyPolicy.PROXY_POLICY_PREFERRED: "preferred",
    ProxyPolicy.PROXY_POLICY_REQUIRED: "required",
}


@dataclass(frozen=True)
class DomainFacts:
    pool: Pool

    async def on_domain_changed(self, delivery: Delivery) -> None:
        fact = delivery.message(DomainChanged)
        async with self.pool.acquire() as conn:
            await domains.save(
                conn,
                name=fact.name.lower(),
                proxy_policy=POLICIES.get(fact.proxy_policy, "none"),
                active=fact.active and not fact.deleted,
                changed_at=to_datetime(fact.changed_time) or EPOCH,
            )
