"""A circuit breaker: stop calling what keeps failing, try it singly, go on when it works again."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass
class Breaker:
    """Pure: the caller says what time it is (seconds of any steady clock)."""

    name: str
    failure_threshold: int = 5
    timeout_seconds: float = 60.0
    success_threshold: int = 5
    state: State = State.CLOSED
    failure_count: int = 0
    success_count: int = 0
    opened_at: float = 0.0
    total_calls: int = 0
    total_successes: int = 0
    total_failures: int = 0
    total_rejections: int = 0
    _probing: bool = field(default=False, repr=False)
    _probed_at: float = field(default=0.0, repr=False)

    def may_call(self, now: float) -> bool:
        """True when the call may go out. Half-open lets one probe through at a time."""
        if self.state is State.OPEN and now - self.opened_at >= self.timeout_seconds:
            self.state, self.success_count, self._probing = State.HALF_OPEN, 0, False
        # A probe whose caller was cancelled never reports; after the timeout it no longer counts.
        probing = self._probing and now - self._probed_at < self.timeout_seconds
        if self.state is State.CLOSED or (self.state is State.HALF_OPEN and not probing):
            self._probing, self._probed_at = self.state is State.HALF_OPEN, now
            return True
        self.total_rejections += 1
        return False

    def succeeded(self) -> None:
        self.total_calls += 1
        self.total_successes += 1
        self._probing = False
        if self.state is State.HALF_OPEN:
            self.success_count += 1
            if self.success_count >= self.success_threshold:
                self.state, self.failure_count = State.CLOSED, 0
        elif self.state is State.CLOSED:
            self.failure_count = 0

    def failed(self, now: float) -> None:
        self.total_calls += 1
        self.total_failures += 1
        self._probing = False
        if self.state is State.OPEN:
            return
        self.failure_count += 1
        if self.state is State.HALF_OPEN or self.failure_count >= self.failure_threshold:
            self.state, self.opened_at = State.OPEN, now
