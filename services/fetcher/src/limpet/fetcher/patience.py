"""How long an answer is waited for, from the domain's own latencies. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# Domains that are remembered; the one that came first goes first.
MOST_DOMAINS = 10_000
# So many answers say how fast a domain is. Until then only the order's own end counts.
ENOUGH = 10
FLOOR_SECONDS = 5.0
# As TCP keeps its retransmission timeout (RFC 6298), with room for the odd heavy page.
MEAN_SHARE, SPREAD_SHARE, SPREADS, ROOM = 1 / 8, 1 / 4, 4, 3
MOST_DOUBLINGS = 6


@dataclass(slots=True)
class _Pace:
    mean: float
    spread: float
    answers: int = 1
    # Timeouts since the last answer: each doubles the patience, so that a domain that became slow is heard again.
    timeouts: int = 0


class Patience:
    def __init__(self, *, floor: float = FLOOR_SECONDS, most: int = MOST_DOMAINS) -> None:
        self._floor = floor
        self._most = most
        self._paces: dict[str, _Pace] = {}

    def __len__(self) -> int:
        return len(self._paces)

    def seconds(self, domain: str, *, at_most: float) -> float:
        """Never more than what the order leaves, never less than the floor where the order leaves that much."""
        pace = self._paces.get(domain)
        if pace is None or pace.answers < ENOUGH:
            return at_most
        usual = (pace.mean + SPREADS * pace.spread) * ROOM
        return min(at_most, max(self._floor, usual) * 2.0 ** min(pace.timeouts, MOST_DOUBLINGS))

    def answered(self, domain: str, seconds: float) -> None:
        pace = self._paces.get(domain)
        if pace is None:
            if len(self._paces) >= self._most:
                del self._paces[next(iter(self._paces))]
            self._paces[domain] = _Pace(seconds, seconds / 2)
            return
        pace.spread += SPREAD_SHARE * (abs(seconds - pace.mean) - pace.spread)
        pace.mean += MEAN_SHARE * (seconds - pace.mean)
        pace.answers += 1
        pace.timeouts = 0

    def timed_out(self, domain: str) -> None:
        if pace := self._paces.get(domain):
            pace.timeouts += 1
