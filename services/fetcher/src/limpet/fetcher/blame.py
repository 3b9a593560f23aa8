"""Who is to blame for what came of a request through a proxy. Pure."""

from __future__ import annotations

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, OrderKind
from limpet.contracts.events.v1.page_pb2 import RejectKind
from limpet.contracts.proxy.v1.proxy_service_pb2 import Outcome
from limpet.fetcher.facts import Judgement
from limpet.fetcher.validate import Failure, Rejection

# Transport errors blame the proxy: nobody can tell from here which side of it failed, unless the proxy says so.
_TRANSPORT = frozenset(
    {FailureKind.FAILURE_KIND_NETWORK, FailureKind.FAILURE_KIND_TIMEOUT, FailureKind.FAILURE_KIND_PROXY}
)
# Robots, sitemap and probe fetches blame nobody.
_BLAMING = frozenset({OrderKind.ORDER_KIND_PAGE, OrderKind.ORDER_KIND_CANARY})


def outcome_of(judged: Judgement, *, kind: OrderKind.ValueType) -> Outcome.ValueType:
    if isinstance(judged, Failure):
        if judged.kind == FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS:
            return Outcome.OUTCOME_UNUSED
        blamed = judged.kind in _TRANSPORT and not judged.of_the_site and kind in _BLAMING
        return Outcome.OUTCOME_PROXY_FAILED if blamed else Outcome.OUTCOME_SITE_FAILED
    if isinstance(judged, Rejection):
        blocked = judged.kind == RejectKind.REJECT_KIND_BLOCKED and kind in _BLAMING
        return Outcome.OUTCOME_BLOCKED if blocked else Outcome.OUTCOME_SITE_FAILED
    return Outcome.OUTCOME_SUCCESS


def error_of(judged: Judgement) -> str:
    """What the broker is told, for people: nothing where all went well."""
    if isinstance(judged, Failure):
        return judged.error
    return judged.reason if isinstance(judged, Rejection) else ""
