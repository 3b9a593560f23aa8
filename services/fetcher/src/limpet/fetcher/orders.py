"""When an order may start, by a clock whose error is known. Pure."""

from __future__ import annotations

from typing import Final

# Too late: the order goes back unstarted.
LATE: Final = None


def wait_of(*, not_before: float, start_by: float, now: float, error: float) -> float | None:
    """Seconds to wait for the slot: 0 means go, LATE means that it has passed, or is narrower than the error."""
    opens, closes = not_before + error, start_by - error
    if now > closes or opens > closes:
        return LATE
    return max(0.0, opens - now)
