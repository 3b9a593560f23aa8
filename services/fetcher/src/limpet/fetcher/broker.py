"""Calls to the proxy broker behind a circuit breaker: while it is away nobody waits for a deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc
import structlog

from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, LeaseRequest, ReportRequest, Used, Want
from limpet.kit.breaker import Breaker, State

if TYPE_CHECKING:
    # It exists in the stub file only.
    from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceAsyncStub

log = structlog.get_logger()

LEASE_SECONDS = 2.0
REPORT_SECONDS = 5.0
# How long a domain is held when nobody says for how long, and how long an open breaker rests.
HOLD_SECONDS = 5.0
SHORTEST_HOLD = 1.0
FAILURES = 3
# The call was lost on its way, or its answer was: the broker may have done it or not.
_LOST = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class Broker:
    def __init__(self, stub: ProxyServiceAsyncStub, *, holder: str) -> None:
        self._stub = stub
        self._holder = holder
        # One good call closes it: the next bad ones would open it again soon enough.
        self.breaker = Breaker(
            "proxy-broker", failure_threshold=FAILURES, timeout_seconds=HOLD_SECONDS, success_threshold=1
        )

    @property
    def hold_seconds(self) -> float:
        """For how long it makes no sense to ask again."""
        if self.breaker.state is not State.OPEN:
            return HOLD_SECONDS
        left = self.breaker.opened_at + self.breaker.timeout_seconds - time.monotonic()
        return min(max(SHORTEST_HOLD, left), HOLD_SECONDS)

    async def lease(self, wants: Sequence[Want], *, by: float) -> Sequence[Grant] | None:
        """One grant per want, or None when nobody answers.

        A call that was lost is made once more, where that is before `by`: the same attempts get the same leases.
        """
        request = LeaseRequest(holder=self._holder, wants=wants)
        for again in (False, True):
            now = time.monotonic()
            seconds = min(LEASE_SECONDS, by - now) if again else LEASE_SECONDS
            if seconds <= 0 or not self.breaker.may_call(now):
                return None
            try:
                answer = await self._stub.Lease(request, timeout=seconds)
            except grpc.aio.AioRpcError as error:
                if not self._is_lost(error, "lease_failed", count=len(wants)):
                    return None
                continue
            self.breaker.succeeded()
            if len(answer.grants) == len(wants):
                return answer.grants
            log.error("lease_misanswered", wants=len(wants), grants=len(answer.grants))
            return None
        return None

    async def report(self, uses: Sequence[Used]) -> bool:
        """False when it is worth saying again."""
        if not self.breaker.may_call(time.monotonic()):
            return False
        try:
            await self._stub.Report(ReportRequest(uses=uses), timeout=REPORT_SECONDS)
        except grpc.aio.AioRpcError as error:
            return not self._is_lost(error, "report_failed", count=len(uses))
        self.breaker.succeeded()
        return True

    def _is_lost(self, error: grpc.aio.AioRpcError, event: str, *, count: int) -> bool:
        """A refusal is an answer too: somebody is there."""
        log.warning(event, count=count, code=error.code().name, error=error.details())
        if error.code() not in _LOST:
            self.breaker.succeeded()
            return False
        self.breaker.failed(time.monotonic())
        return True
