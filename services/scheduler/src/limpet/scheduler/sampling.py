"""Which tasks are followed through the logs: all of them on a quiet day, a few a second on a busy one. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Sampler:
    """A token bucket; the caller says what time it is."""

    per_second: float
    tokens: float = 1.0
    seen_at: float = 0.0

    def take(self, now: float) -> bool:
        self.tokens = min(max(self.per_second * 5, 1.0), self.tokens + (now - self.seen_at) * self.per_second)
        self.seen_at = now
        if self.per_second <= 0 or self.tokens < 1:
            return False
        self.tokens -= 1
        return True
