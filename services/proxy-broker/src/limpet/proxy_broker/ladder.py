"""Which tiers a request may use: from the one that the domain has reached up to the dearest of its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ANY: Final = ""  # all kinds alike
DIRECT: Final = "direct"
NOWHERE: Final = "nowhere"  # no proxy is of this kind


def climb(tiers: Sequence[str], *, reached: str, direct_allowed: bool) -> tuple[str, ...]:
    """The tier to use, then the dearer ones that take its place where it has no proxy. Nothing learned: the cheapest."""
    if not tiers:
        return (ANY,)
    above = tuple(tiers[tiers.index(reached) :] if reached in tiers else tiers)
    return above if direct_allowed else tuple(tier for tier in above if tier != DIRECT) or (NOWHERE,)


def cheaper(tiers: Sequence[str], *, reached: str, direct_allowed: bool) -> str | None:
    """The tier just below, which a single lease may try."""
    below = tiers[: tiers.index(reached)] if reached in tiers else ()
    return next((tier for tier in reversed(below) if direct_allowed or tier != DIRECT), None)
