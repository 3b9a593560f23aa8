"""How many requests at once a site bears: halved when it blocks, one more for every round of good answers. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

# What was under way together when the site began to block says one thing, not many.
BREATH = timedelta(seconds=5)
_SHRINK = 0.5


class Bearing(Protocol):
    """A domain or a group of one: what it bears at present, and when that last shrank."""

    bearable: float
    shrunk_at: datetime | None
    limit_now: int


def take_answers(bearing: Bearing, *, good: int, blocked: int, most: int, now: datetime) -> None:
    """Additive increase, multiplicative decrease, never above the configured limit and never below one."""
    bearable = min(bearing.bearable, float(most))
    if blocked and (bearing.shrunk_at is None or now - bearing.shrunk_at >= BREATH):
        bearable = max(1.0, bearable * _SHRINK)
        bearing.shrunk_at = now
    elif not blocked and bearable < most:
        bearable = min(float(most), bearable + good / bearable)
    # A limit that was raised since must not be held down by what was bearable below the old one.
    bearing.bearable = float("inf") if bearable >= most else bearable
    bearing.limit_now = max(1, min(most, int(bearable)))
