"""Whether an order is tried once more inside its attempt."""

from __future__ import annotations

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.again import wait_before
from limpet.fetcher.validate import Failure

UNSENT = Failure(FailureKind.FAILURE_KIND_PROXY, "the proxy refused the connection", unsent=True)


def test_f7_the_waits_double_and_there_are_five() -> None:
    waits = [wait_before(retry, UNSENT, start_by=1000.0, now=0.0, error=0.0) for retry in range(7)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, None, None]


def test_f7_what_may_have_reached_the_site_is_not_tried_again() -> None:
    for kind in FailureKind.values():
        assert wait_before(0, Failure(kind, "lost"), start_by=1000.0, now=0.0, error=0.0) is None


def test_f7_a_retry_that_could_not_start_inside_the_slot_is_not_waited_for() -> None:
    assert wait_before(0, UNSENT, start_by=11.2, now=10.0, error=0.1) == 1.0
    assert wait_before(0, UNSENT, start_by=11.2, now=10.0, error=0.3) is None
    assert wait_before(1, UNSENT, start_by=11.2, now=10.0, error=0.1) is None
