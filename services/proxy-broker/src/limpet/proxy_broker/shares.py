"""Decayed shares: how often something came out one way, where recent and many uses weigh more than old and few."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

WEIGHT: Final = 0.1  # of each new use
HALF_LIFE: Final = timedelta(hours=6)
# What is assumed of a proxy that nobody has used for long.
SUCCESS_PRIOR: Final = 0.5
BLOCK_PRIOR: Final = 0.0

_HALF_LIFE_SECONDS: Final = HALF_LIFE.total_seconds()


def faded(share: float, *, prior: float, seconds: float) -> float:
    """The share after a time without uses: what was learned is forgotten by and by."""
    kept: float = 0.5 ** (max(seconds, 0.0) / _HALF_LIFE_SECONDS)
    return prior + (share - prior) * kept


def learned(share: float | None, *, hits: int, samples: int, prior: float, seconds: float) -> float | None:
    """The share after some uses at once, so many of them hits. The first ones stand for themselves."""
    if not samples:
        return share
    rate = hits / samples
    if share is None:
        return rate
    kept: float = (1 - WEIGHT) ** samples
    return faded(share, prior=prior, seconds=seconds) * kept + rate * (1 - kept)
