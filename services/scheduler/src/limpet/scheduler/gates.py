"""What keeps a domain from being served at this moment, and until when. Pure: dispatch asks, and so does explain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from limpet.scheduler.breaker_board import OPEN, reopens_at
from limpet.scheduler.politeness import Pace
from limpet.scheduler.windows import closed_until


@dataclass(frozen=True)
class Gate:
    """`until` is None where no clock but somebody or something opens it."""

    name: str
    until: datetime | None
    sentence: str


def closed_gate(pace: Pace, now: datetime) -> Gate | None:
    """The first gate of the domain that is closed, the one that only a person opens first."""
    if not pace.is_active:
        return Gate("inactive", None, f"the domain {pace.name} is switched off; activate it to go on")
    window = closed_until(
        start=pace.maintenance_start, end=pace.maintenance_end, zone_name=pace.maintenance_zone, now=now
    )
    if window is not None:
        return Gate(
            "maintenance_window",
            window,
            f"{pace.name} is in its maintenance window "
            f"({pace.maintenance_start:%H:%M} to {pace.maintenance_end:%H:%M} {pace.maintenance_zone})",
        )
    if pace.breaker_state == OPEN and (moment := reopens_at(pace)) is not None and moment > now:
        why = f": {pace.breaker_reason}" if pace.breaker_reason else ""
        return Gate("breaker_open", moment, f"{pace.name} refused us and is left alone for a while{why}")
    if pace.held_until is not None and pace.held_until > now:
        reason = {"retry_after": "asked us to come back later", "no_proxy": "has no proxy free"}.get(
            pace.held_reason or "", "is held"
        )
        return Gate(pace.held_reason or "held", pace.held_until, f"{pace.name} {reason}")
    return None
