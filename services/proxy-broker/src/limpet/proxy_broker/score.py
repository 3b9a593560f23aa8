"""How much a proxy deserves to be used for a domain, and the draw that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from random import Random
from typing import Final

from limpet.proxy_broker.shares import BLOCK_PRIOR, SUCCESS_PRIOR, faded

# The worst still gets a lease now and then: otherwise nobody would learn that it is well again.
LEAST: Final = 0.01
SLOW_MS: Final = 2000.0
DEAR_MONTH: Final = 50.0
DEAR_GB: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known of a proxy for one domain; shares are decayed means as of `shared_at`."""

    group: int
    proxy_id: int
    priority: int
    room: int
    success_share: float | None
    block_share: float | None
    shared_at: datetime | None
    avg_response_ms: float | None
    monthly_cost: float | None
    cost_per_gb: float | None


def score(record: Record, *, now: datetime) -> float:
    """From 0.01 to 1. Successes and blocks decide; slowness and price at most halve it each."""
    age = 0.0 if record.shared_at is None else (now - record.shared_at).total_seconds()
    success = _share(record.success_share, prior=SUCCESS_PRIOR, age=age)
    block = _share(record.block_share, prior=BLOCK_PRIOR, age=age)
    speed = 0.5 + 0.5 / (1 + (record.avg_response_ms or 0.0) / SLOW_MS)
    price = (record.monthly_cost or 0.0) / DEAR_MONTH + (record.cost_per_gb or 0.0) / DEAR_GB
    thrift = 0.5 + 0.5 / (1 + price)
    return min(max(success * success * (1 - block) * speed * thrift, LEAST), 1.0)


def _share(share: float | None, *, prior: float, age: float) -> float:
    return prior if share is None else faded(share, prior=prior, seconds=age)


def draw(records: Sequence[Record], *, count: int, now: datetime, chance: Random) -> list[int]:
    """Up to so many proxies by weighted chance, the best priority first, none beyond its room."""
    drawn: list[int] = []
    for priority in sorted({record.priority for record in records}):
        left = {r.proxy_id: [r.room, score(r, now=now)] for r in records if r.priority == priority and r.room > 0}
        while left and len(drawn) < count:
            names = list(left)
            [proxy_id] = chance.choices(names, cum_weights=list(accumulate(left[name][1] for name in names)))
            drawn.append(proxy_id)
            left[proxy_id][0] -= 1
            if left[proxy_id][0] <= 0:
                del left[proxy_id]
    return drawn
