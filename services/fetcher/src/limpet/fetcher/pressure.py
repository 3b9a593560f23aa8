"""How near memory is to its limits. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

# Orders are taken again below this share of the soft limit, so that one page more or less changes nothing.
RELIEVED = 0.9


class Pressure(IntEnum):
    NONE = 0
    SOFT = 1
    HARD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes, and shares of the cgroup's limit; the lower of the two holds. 0 bytes are no limit."""

    soft_share: float
    hard_share: float
    soft_bytes: int = 0
    hard_bytes: int = 0

    def pressure(self, used: int, *, limit: int, before: Pressure) -> Pressure:
        soft = _lower(self.soft_bytes, limit * self.soft_share)
        hard = _lower(self.hard_bytes, limit * self.hard_share)
        if hard and used >= hard:
            return Pressure.HARD
        if soft and used >= (soft if before == Pressure.NONE else soft * RELIEVED):
            return Pressure.SOFT
        return Pressure.NONE


def _lower(one: float, other: float) -> float:
    return min(one, other) if one and other else one or other
