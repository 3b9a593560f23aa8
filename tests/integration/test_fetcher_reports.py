"""Reports that the broker cannot take now: kept in bounds, dropped when their lease is over, each counted."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, Outcome, Used
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceStub
from limpet.fetcher import reports as module
from limpet.fetcher.broker import Broker
from limpet.fetcher.reports import Reports
from limpet.kit.rpc import open_channel
from tests.support.servers import free_port
from tests.support.told_broker import ToldBroker, told_broker

SUCCESS = Outcome.OUTCOME_SUCCESS


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
async def broker(port: int) -> AsyncIterator[Broker]:
    """Nobody listens there yet."""
    async with open_channel(f"127.0.0.1:{port}") as channel:
        yield Broker(ProxyServiceStub(channel), holder="test")


def dropped(reason: str) -> float:
    return REGISTRY.get_sample_value("limpet_fetcher_reports_dropped_total", {"reason": reason}) or 0.0


def used(lease_id: int) -> Used:
    return Used(lease_id=lease_id, outcome=SUCCESS)


async def test_f6_a_report_about_a_lease_that_has_expired_is_dropped_and_counted(broker: Broker, port: int) -> None:
    before = dropped("expired")
    told = ToldBroker(Grant())
    reports = Reports(broker)
    reports.add(used(1), ends_at=time.monotonic() - 1)
    reports.add(used(2), ends_at=time.monotonic() + 60)
    async with told_broker(told, port=port):
        await reports.drain()
    assert [one.lease_id for one in told.uses] == [2]
    assert dropped("expired") == before + 1


async def test_f6_no_more_reports_wait_than_there_is_room_for_and_the_oldest_goes_first(
    broker: Broker, port: int
) -> None:
    before = dropped("full")
    told = ToldBroker(Grant())
    reports = Reports(broker, most=3)
    for lease_id in range(1, 6):
        reports.add(used(lease_id), ends_at=time.monotonic() + 60)
    assert len(reports) == 3
    async with told_broker(told, port=port):
        await reports.drain()
    assert [one.lease_id for one in told.uses] == [3, 4, 5]
    assert dropped("full") == before + 2


async def test_f6_many_reports_travel_in_few_calls(broker: Broker, port: int) -> None:
    told = ToldBroker(Grant())
    reports = Reports(broker)
    async with told_broker(told, port=port):
        for lease_id in range(1, 1201):
            reports.add(used(lease_id), ends_at=time.monotonic() + 60)
        await reports.drain()
    assert [one.lease_id for one in told.uses] == list(range(1, 1201))
    assert told.calls == 3


async def test_f6_a_process_that_stops_does_not_wait_for_ever(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAST_SECONDS", 0.3)
    before = dropped("stopped")
    reports = Reports(broker)
    reports.add(used(1), ends_at=time.monotonic() + 60)
    await reports.drain()
    assert (len(reports), dropped("stopped")) == (0, before + 1)
