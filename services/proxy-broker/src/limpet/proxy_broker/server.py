"""gRPC in, use case out: checks the message, keeps the caller's deadline, translates errors once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

import asyncpg
import grpc
import grpc.aio
import structlog
from google.protobuf.timestamp_pb2 import Timestamp

from limpet.contracts.proxy.v1 import proxy_service_pb2 as pb
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceServicer
from limpet.kit import tracing
from limpet.kit.beat import Pulse
from limpet.kit.clock import to_stamp
from limpet.kit.gather import Gather
from limpet.kit.pg import LOST
from limpet.proxy_broker import metrics
from limpet.proxy_broker.blame import Outcome, Use
from limpet.proxy_broker.errors import BadRequest
from limpet.proxy_broker.lease import Grant, Lease, Want
from limpet.proxy_broker.refusal import Refusal
from limpet.proxy_broker.report import Report

log = structlog.get_logger()

NAME: Final = pb.DESCRIPTOR.services_by_name["ProxyService"].full_name
MAX_BATCH: Final = 1000
# Callers that come while others are served are served together. One transaction of each kind at a time: two would wait for
# the same proxies.
TOGETHER: Final = 1000
AT_ONCE: Final = 1
MAX_SECONDS: Final = 10.0  # for callers that set no deadline
MAX_DOMAIN: Final = 255
MAX_SESSION: Final = 255
MAX_HOLDER: Final = 255
MAX_BYTES: Final = 1 << 40  # of one answer

_OUTCOMES: Final[dict[int, Outcome]] = {
    pb.OUTCOME_SUCCESS: "success",
    pb.OUTCOME_PROXY_FAILED: "proxy_failed",
    pb.OUTCOME_BLOCKED: "blocked",
    pb.OUTCOME_SITE_FAILED: "site_failed",
    pb.OUTCOME_UNUSED: "unused",
}

Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")
Q = TypeVar("Q")


@dataclass(frozen=True, kw_only=True)
class Server(ProxyServiceServicer):
    """The contract's two calls."""

    lease: Lease
    report: Report
    pulse: Pulse
    ttl: timedelta
    ttl_max: timedelta

    @cached_property
    def _leases(self) -> Gather[tuple[list[Want], str], list[Grant | Refusal]]:
        return Gather(
            bounded(self.lease.lease_many), linger=0, most=TOGETHER, at_once=AT_ONCE, weigh=lambda call: len(call[0])
        )

    @cached_property
    def _reports(self) -> Gather[list[Use], int]:
        return Gather(bounded(self.report.report_many), linger=0, most=TOGETHER, at_once=AT_ONCE, weigh=len)

    async def Lease(self, request: pb.LeaseRequest, context: Context) -> pb.LeaseResponse:  # noqa: N802
        with metrics.LEASE_SECONDS.time():
            answers = await self._within_deadline(self._lease(request), context)
        for want, answer in zip(request.wants, answers, strict=True):
            if want.traceparent:
                _trace(want, answer)
        refused = Counter(answer.reason for answer in answers if isinstance(answer, Refusal))
        metrics.LEASES_GIVEN.inc(len(answers) - refused.total())
        for reason, count in refused.items():
            metrics.LEASES_REFUSED.labels(reason).inc(count)
        return _to_response(answers)

    async def Report(self, request: pb.ReportRequest, context: Context) -> pb.ReportResponse:  # noqa: N802
        with metrics.REPORT_SECONDS.time():
            taken = await self._within_deadline(self._report(request), context)
        return pb.ReportResponse(taken=taken)

    async def _lease(self, request: pb.LeaseRequest) -> list[Grant | Refusal]:
        _check_count("wants", len(request.wants))
        if len(request.holder) > MAX_HOLDER or "\0" in request.holder:
            raise BadRequest(f"holder: must hold at most {MAX_HOLDER} characters and no NUL")
        wants = self._to_wants(request.wants)
        return await self._leases.add((wants, request.holder)) if wants else []

    async def _report(self, request: pb.ReportRequest) -> int:
        _check_count("uses", len(request.uses))
        uses = [_to_use(used, n) for n, used in enumerate(request.uses)]
        return await self._reports.add(uses) if uses else 0

    async def _within_deadline(self, work: Awaitable[T], context: Context) -> T:
        """Nobody waits for an answer after the deadline. A lease that is given too late is there for who asks again."""
        left = context.time_remaining()
        started = time.monotonic()
        try:
            async with asyncio.timeout(MAX_SECONDS if left is None else min(left, MAX_SECONDS)):
                answer = await work
        except BadRequest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TimeoutError:
            self.pulse.failed()
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the database did not answer in time")
        except (*LOST, asyncpg.OperatorInterventionError):
            self.pulse.failed()
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the database is away")
        self.pulse.done()
        self.pulse.latency((time.monotonic() - started) * 1000)
        return answer

    def _to_wants(self, wants: Iterable[pb.Want]) -> list[Want]:
        """What many wants of a call have in common is checked once."""
        checked: dict[tuple[str, str, str, int], tuple[str, timedelta]] = {}
        found: list[Want] = []
        for n, want in enumerate(wants):
            domain, session_key, task_id = want.domain, want.session_key, want.task_id
            alike = (domain, want.country, session_key, want.ttl_seconds)
            known = checked.get(alike)
            if known is None:
                known = checked[alike] = self._check(want, f"wants[{n}]")
            if task_id <= 0:
                raise BadRequest(f"wants[{n}].task_id: must be positive")
            found.append(Want(domain, known[0], task_id, want.attempt, known[1], session_key, want.direct_allowed))
        return found

    def _check(self, want: pb.Want, at: str) -> tuple[str, timedelta]:
        """The country and the life that it gets."""
        domain, country, session_key, seconds = want.domain, want.country, want.session_key, want.ttl_seconds
        if not domain or len(domain) > MAX_DOMAIN or "\0" in domain:
            raise BadRequest(f"{at}.domain: must hold 1 to {MAX_DOMAIN} characters")
        if country and not (len(country) == 2 and country.isascii() and country.isalpha()):
            raise BadRequest(f"{at}.country: must be a two-letter code or empty")
        if seconds < 0:
            raise BadRequest(f"{at}.ttl_seconds: must not be negative")
        if len(session_key) > MAX_SESSION or "\0" in session_key:
            raise BadRequest(f"{at}.session_key: must hold at most {MAX_SESSION} characters and no NUL")
        return country.upper(), min(timedelta(seconds=seconds), self.ttl_max) if seconds else self.ttl


def bounded(work: Callable[[Sequence[Q]], Awaitable[list[T]]]) -> Callable[[Sequence[Q]], Awaitable[list[T]]]:
    """What hangs is rolled back, or nobody else would have a turn."""

    async def run(calls: Sequence[Q]) -> list[T]:
        async with asyncio.timeout(MAX_SECONDS):
            return await work(calls)

    return run


def _trace(want: pb.Want, answer: Grant | Refusal) -> None:
    if tracing.is_sampled(want.traceparent):
        found = {"refusal": answer.reason} if isinstance(answer, Refusal) else {"proxy_id": answer.proxy_id}
        with tracing.use(want.traceparent):
            log.info("proxy_leased", task_id=want.task_id, attempt=want.attempt, domain=want.domain, **found)


def _check_count(field: str, count: int) -> None:
    if count > MAX_BATCH:
        raise BadRequest(f"{field}: at most {MAX_BATCH} in one call")


def _to_use(used: pb.Used, n: int) -> Use:
    outcome, response_ms, byte_count = _OUTCOMES.get(used.outcome), used.response_ms, used.byte_count
    if outcome is None:
        raise BadRequest(f"uses[{n}].outcome: not known")
    if response_ms < 0:
        raise BadRequest(f"uses[{n}].response_ms: must not be negative")
    if not 0 <= byte_count <= MAX_BYTES:
        raise BadRequest(f"uses[{n}].byte_count: must be from 0 to {MAX_BYTES}")
    return Use(
        lease_id=used.lease_id, outcome=outcome, response_ms=response_ms, error=used.error, byte_count=byte_count
    )


def _to_response(answers: Iterable[Grant | Refusal]) -> pb.LeaseResponse:
    """Most leases of a call end at the same moment: each moment is translated once."""
    response = pb.LeaseResponse()
    add = response.grants.add
    stamps: dict[datetime, Timestamp] = {}
    for answer in answers:
        moment = answer.retry_at if isinstance(answer, Refusal) else answer.expires_at
        stamp = stamps.get(moment)
        if stamp is None:
            stamp = stamps[moment] = to_stamp(moment)
        if isinstance(answer, Refusal):
            add(refusal=answer.reason, retry_time=stamp)
        elif answer.direct:
            add(lease_id=answer.lease_id, expires_time=stamp, direct=True)
        else:
            add(
                lease_id=answer.lease_id,
                proxy_id=answer.proxy_id,
                protocol=answer.protocol,
                host=answer.host,
                port=answer.port,
                username=answer.username,
                password=answer.password,
                expires_time=stamp,
            )
    return response
