"""When a field that used to be filled is not any more: by its own past, with enough samples, and not to and fro."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

# Stands for pages that had any item at all. A crawl goes from lists to products and back: only a collapse counts.
PAGES: Final = "*"


@dataclass(frozen=True, slots=True)
class Limits:
    # Items in the hour, and in the past, before anything is said.
    least_seen: int = 50
    least_past: float = 200.0
    # What is hardly ever filled cannot be missed.
    least_baseline: float = 0.2
    # Dropped below this share of its past; well again above the other.
    drop: float = 0.7
    drop_pages: float = 0.3
    recover: float = 0.9
    # Standard errors that chance may explain.
    sigmas: float = 4.0
    half_life_hours: float = 72.0
    # An hour counts for no more than this many, so that one burst is not the whole past.
    most_an_hour: float = 1000.0
    # While dropped, the past learns slowly: for good, it is the new past some days later.
    slow: float = 0.1


@dataclass(frozen=True, slots=True)
class Past:
    baseline: float = 0.0
    weight: float = 0.0
    dropped: bool = False


def judged(past: Past, *, field: str, seen: int, filled: int, limits: Limits) -> Past:
    """Whether it is dropped after these samples. The past itself stays."""
    if seen < limits.least_seen or past.weight < limits.least_past:
        return past
    rate = filled / seen
    if past.dropped:
        return replace(past, dropped=rate < past.baseline * limits.recover)
    chance = limits.sigmas * sqrt(past.baseline * (1 - past.baseline) / seen)
    share = limits.drop_pages if field == PAGES else limits.drop
    dropped = past.baseline >= limits.least_baseline and rate < past.baseline * share and past.baseline - rate > chance
    return replace(past, dropped=dropped)


def folded(past: Past, *, seen: int, filled: int, hours: float, limits: Limits) -> Past:
    """The past with these samples in it; what is older counts less and less."""
    kept = past.weight * 0.5 ** (max(0.0, hours) / limits.half_life_hours)
    added = min(float(seen), limits.most_an_hour) * (limits.slow if past.dropped else 1.0)
    if kept + added <= 0:
        return replace(past, weight=0.0)
    rate = filled / seen if seen else past.baseline
    return replace(past, baseline=(past.baseline * kept + rate * added) / (kept + added), weight=kept + added)
