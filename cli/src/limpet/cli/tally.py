"""How far a batch is: counts by status turned into the few numbers a person watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

FETCHED: Final = ("downloaded", "queued_parse", "parsing")
RATE_WINDOW_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Tally:
    """The tasks of one batch at one moment."""

    queued: int
    fetched: int
    parsed: int
    failed: int
    total: int

    @classmethod
    def of(cls, tasks: Mapping[str, int]) -> Self:
        """From the counts by status that the API gives. A status unknown here counts as queued, never as done."""
        parsed = tasks.get("completed", 0)
        # A guess that found nothing is no page, and nobody's failure.
        missed = min(tasks.get("missed", 0), tasks.get("cancelled", 0))
        failed = tasks.get("failed", 0) + tasks.get("cancelled", 0) - missed
        fetched = sum(tasks.get(status, 0) for status in FETCHED) + parsed
        total = sum(count for status, count in tasks.items() if status != "missed") - missed
        return cls(queued=total - fetched - failed, fetched=fetched, parsed=parsed, failed=failed, total=total)

    @property
    def done(self) -> int:
        """Tasks that will not move again."""
        return self.parsed + self.failed

    @property
    def finished(self) -> bool:
        """Whether every task is terminal. An empty batch has not begun."""
        return self.total > 0 and self.done == self.total


@dataclass
class Pace:
    """Pages per second over the last moments, and what they promise."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, done: int, *, now: float) -> None:
        """Note how many tasks were done at `now` (seconds of a monotonic clock)."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def per_second(self) -> float:
        """Tasks done per second over the window; 0 while nothing is known."""
        if len(self._seen) < 2:
            return 0.0
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - start) if end > start else 0.0

    def eta_seconds(self, tally: Tally) -> float | None:
        """Seconds until the tasks known now are done, or None while no pace is known."""
        rate = self.per_second
        return (tally.total - tally.done) / rate if rate > 0 else None


def as_clock(seconds: float | None) -> str:
    """Seconds as m:ss or h:mm:ss."""
    if seconds is None:
        return "-:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
