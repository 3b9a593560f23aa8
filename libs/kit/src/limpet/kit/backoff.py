"""Growing delays with jitter that never pass their cap."""

from __future__ import annotations

from random import Random


def delay(attempt: int, *, base: float, cap: float, rng: Random, jitter: float = 0.25) -> float:
    """Seconds to wait after failure number `attempt` (1 for the first). Jitter comes before the cap."""
    grown = base * 2.0 ** min(max(attempt, 1) - 1, 60)
    return min(cap, min(grown, cap) * rng.uniform(1 - jitter, 1 + jitter))
