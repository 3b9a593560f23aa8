"""The least speed of a body: a site that drips holds a slot, a connection and a proxy for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.validate import Failure


@dataclass(frozen=True, slots=True)
class Rate:
    """So many bytes a second, over each window that follows the grace. 0 bytes mean no such rule."""

    bytes_per_second: int = 1000
    grace_seconds: float = 10.0
    window_seconds: float = 20.0

    @property
    def failure(self) -> Failure:
        error = f"the body came with less than {self.bytes_per_second} bytes a second"
        return Failure(FailureKind.FAILURE_KIND_TIMEOUT, error)

    def is_kept(self, received: int) -> bool:
        """Whether so many bytes are enough for a window."""
        return received >= self.bytes_per_second * self.window_seconds


class Dripping:
    """Hangs up on an answer whose body comes too slowly, as it comes over the wire."""

    def __init__(self, received: Callable[[], int], hang_up: Callable[[], None], rate: Rate) -> None:
        self._received = received
        self._hang_up = hang_up
        self._rate = rate
        self._timer: asyncio.TimerHandle | None = None
        self._before = 0
        self.found = False

    def __enter__(self) -> Dripping:
        if self._rate.bytes_per_second:
            self._look_in(self._rate.grace_seconds, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, seconds: float, look: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, look)

    def _begin(self) -> None:
        self._before = self._received()
        self._look_in(self._rate.window_seconds, self._judge)

    def _judge(self) -> None:
        if self._rate.is_kept(self._received() - self._before):
            self._begin()
        else:
            self.found = True
            # Whoever reads is told that the connection is lost.
            self._hang_up()
