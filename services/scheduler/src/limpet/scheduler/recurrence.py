"""When a task whose next crawl has come due is really crawled. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

# Up to here a crawl is on time; later than that its time was missed, as after a night without a scheduler.
ON_TIME = timedelta(minutes=1)
SPREAD_SECONDS = 300.0


def due_again(planned: datetime, *, now: datetime, rng: Random) -> datetime | None:
    """None means at once. What was missed comes once, spread over a few minutes."""
    if now - planned <= ON_TIME:
        return None
    return now + timedelta(seconds=rng.uniform(0.0, SPREAD_SECONDS))
