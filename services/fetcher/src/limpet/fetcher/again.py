"""May an order be tried once more, inside the same attempt? Pure.

Only where the request never reached the site: its proxy did not take it. A second request to the site would be a start
that the domain's pace does not know of, so everything else goes back to the scheduler.
"""

from __future__ import annotations

from typing import Final

from limpet.fetcher.validate import Failure

# One proxy after the other; as many retries as there are waits.
WAITS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)


def wait_before(retry: int, failure: Failure, *, start_by: float, now: float, error: float) -> float | None:
    """Seconds to wait before this retry (the first is 0); None when there is none.

    `error` is that of the clock. The retry must still start inside the order's own slot.
    """
    if not failure.unsent or retry >= len(WAITS):
        return None
    wait = WAITS[retry]
    return wait if now + wait <= start_by - error else None
