"""The stock of leases, and who is blamed for what."""

from __future__ import annotations

import pytest

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, OrderKind
from limpet.contracts.events.v1.page_pb2 import RejectKind
from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, Outcome
from limpet.fetcher.blame import outcome_of
from limpet.fetcher.facts import Judgement
from limpet.fetcher.redirect import Moved
from limpet.fetcher.stock import Leased, Shelf, Stock
from limpet.fetcher.validate import Failure, Rejection

TEA, SALT = Shelf("shop.test", "tea", False), Shelf("shop.test", "salt", False)


def leased(lease_id: int, *, shelf: Shelf = TEA, ends_at: float = 100.0) -> Leased:
    return Leased(Grant(lease_id=lease_id, password="s3cret"), shelf, keep_until=ends_at - 30, ends_at=ends_at)


def test_f2_of_those_that_last_long_enough_the_one_that_ends_first_is_taken() -> None:
    stock = Stock()
    for lease_id, ends_at in ((1, 90.0), (2, 130.0), (3, 110.0)):
        stock.put(leased(lease_id, ends_at=ends_at))
    taken = [stock.take(TEA, needed_until=100.0) for _ in range(3)]
    assert [one.grant.lease_id if one else None for one in taken] == [3, 2, None]
    assert len(stock) == 1


def test_f2_a_lease_serves_only_orders_of_its_domain_session_and_freedom() -> None:
    stock = Stock()
    stock.put(leased(1))
    for shelf in (SALT, Shelf("other.test", "tea", False), Shelf("shop.test", "tea", True)):
        assert stock.take(shelf, needed_until=0.0) is None
    assert stock.take(TEA, needed_until=0.0) is not None


def test_f2_what_was_taken_cannot_be_let_go() -> None:
    stock = Stock()
    first, second = leased(1, ends_at=90.0), leased(2)
    stock.put(first)
    stock.put(second)
    assert stock.take(TEA, needed_until=0.0) is first
    assert not stock.remove(first)
    assert stock.clear() == [second]
    assert len(stock) == 0


def test_f2_a_direct_lease_has_no_proxy_to_go_through() -> None:
    grant = Grant(lease_id=1, direct=True)
    assert Leased(grant, TEA, keep_until=0.0, ends_at=0.0).via is None


PAGE = OrderKind.ORDER_KIND_PAGE
BLAMELESS = (OrderKind.ORDER_KIND_ROBOTS, OrderKind.ORDER_KIND_SITEMAP, OrderKind.ORDER_KIND_PROBE)
BLOCKED = Rejection(RejectKind.REJECT_KIND_BLOCKED, "status 403")
TRANSPORT = [
    Failure(kind, "")
    for kind in (
        FailureKind.FAILURE_KIND_NETWORK,
        FailureKind.FAILURE_KIND_TIMEOUT,
        FailureKind.FAILURE_KIND_PROXY,
    )
]


@pytest.mark.parametrize(
    ("judged", "outcome"),
    [
        *((failure, Outcome.OUTCOME_PROXY_FAILED) for failure in TRANSPORT),
        (Failure(FailureKind.FAILURE_KIND_NETWORK, "", of_the_site=True), Outcome.OUTCOME_SITE_FAILED),
        (Failure(FailureKind.FAILURE_KIND_SERVER_ERROR, ""), Outcome.OUTCOME_SITE_FAILED),
        (Failure(FailureKind.FAILURE_KIND_CLIENT_ERROR, ""), Outcome.OUTCOME_SITE_FAILED),
        (Failure(FailureKind.FAILURE_KIND_TOO_LARGE, ""), Outcome.OUTCOME_SITE_FAILED),
        (Failure(FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS, ""), Outcome.OUTCOME_UNUSED),
        (BLOCKED, Outcome.OUTCOME_BLOCKED),
        (Rejection(RejectKind.REJECT_KIND_GARBAGE, ""), Outcome.OUTCOME_SITE_FAILED),
        (Moved("http://shop.test/new"), Outcome.OUTCOME_SUCCESS),
        (None, Outcome.OUTCOME_SUCCESS),
    ],
)
def test_f6_transport_blames_the_proxy_and_a_block_the_pair(judged: Judgement, outcome: Outcome.ValueType) -> None:
    assert outcome_of(judged, kind=PAGE) == outcome


@pytest.mark.parametrize("kind", BLAMELESS)
@pytest.mark.parametrize("judged", [*TRANSPORT, BLOCKED])
def test_f6_robots_sitemaps_and_probes_blame_nobody(judged: Judgement, kind: OrderKind.ValueType) -> None:
    assert outcome_of(judged, kind=kind) == Outcome.OUTCOME_SITE_FAILED
