"""How far apart request starts are, and how late one may be. Pure."""

from __future__ import annotations

# A share of the delay: the pace that is lost to exactness. Bounded, so that a long delay is not stretched for nothing.
_SHARE = 0.12
_LEAST = 0.010
_MOST = 0.150


def slot_tolerance(crawl_delay_seconds: float) -> float:
    """How long after its slot a request may start. Slots are delay + tolerance apart, so no two starts are closer than the delay."""
    if crawl_delay_seconds <= 0:
        return 0.0
    return min(_MOST, max(_LEAST, _SHARE * crawl_delay_seconds))
