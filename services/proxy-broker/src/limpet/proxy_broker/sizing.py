"""How many proxies a domain needs: requests per hour by what one proxy may do in an hour, and a fifth more."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final, Literal

BUFFER: Final = Fraction(6, 5)
Advice = Literal["enough", "tight", "short"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """A pool's size: what the rate takes, and what leaves room for failures."""

    needed: int
    recommended: int


def size(*, rate_per_hour: Fraction, per_proxy: Fraction | None) -> Size:
    """Without a limit per proxy one proxy takes any rate."""
    if rate_per_hour <= 0:
        return Size(needed=0, recommended=0)
    needed = Fraction(1) if per_proxy is None else rate_per_hour / per_proxy
    return Size(needed=ceil(needed), recommended=ceil(needed * BUFFER))


def advise(found: Size, *, have: int) -> Advice:
    if have < found.needed:
        return "short"
    return "tight" if have < found.recommended else "enough"
