"""How many happened lately: counts in one bucket per second, never more than the span it covers."""

from __future__ import annotations

from collections import deque


class Tally:
    """A sliding count over the last `span_seconds`."""

    def __init__(self, *, span_seconds: int) -> None:
        self._buckets: deque[tuple[int, int]] = deque(maxlen=span_seconds + 1)

    def add(self, count: int, *, now: float) -> None:
        second = int(now)
        if count <= 0:
            return
        if self._buckets and self._buckets[-1][0] >= second:
            last_second, last_count = self._buckets.pop()
            self._buckets.append((last_second, last_count + count))
        else:
            self._buckets.append((second, count))

    def last(self, seconds: int, *, now: float) -> int:
        total = 0
        for second, count in reversed(self._buckets):
            if second <= now - seconds - 1:
                break
            total += count
        return total
