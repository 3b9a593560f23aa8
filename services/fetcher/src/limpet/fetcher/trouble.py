"""What went wrong with a request, as the health service keeps it for people. Pure."""

from __future__ import annotations

from typing import Final

from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred, ErrorType
from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchRequested
from limpet.contracts.events.v1.page_pb2 import PageRejected, RejectKind
from limpet.fetcher.facts import Fact

# Answers are no trouble: a page that is not there, a redirect, an address that may not be fetched from.
_TYPES: Final = {
    FailureKind.FAILURE_KIND_NETWORK: ErrorType.ERROR_TYPE_NETWORK,
    FailureKind.FAILURE_KIND_TIMEOUT: ErrorType.ERROR_TYPE_NETWORK,
    FailureKind.FAILURE_KIND_SERVER_ERROR: ErrorType.ERROR_TYPE_NETWORK,
    FailureKind.FAILURE_KIND_PROXY: ErrorType.ERROR_TYPE_PROXY,
}


def trouble_of(order: FetchRequested, fact: Fact, *, worker_id: str) -> ErrorOccurred | None:
    """None where nothing went wrong, or nothing that anybody should look into."""
    if isinstance(fact, FetchFailed) and fact.kind in _TYPES:
        kind, message = _TYPES[fact.kind], fact.error
    elif isinstance(fact, PageRejected) and fact.kind == RejectKind.REJECT_KIND_BLOCKED:
        kind, message = ErrorType.ERROR_TYPE_BLOCKED, fact.reason
    else:
        return None
    return ErrorOccurred(
        worker_id=worker_id,
        service="fetcher",
        type=kind,
        message=message,
        url=order.url,
        operation="fetch",
        retry_attempt=order.attempt,
        error_time=fact.started_time,
        task_id=order.task_id,
    )
