"""The broker as its callers see it: a process with gRPC, REST and announcements."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import grpc
import httpx
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from limpet.contracts.events.v1.proxy_pb2 import ProxyChanged
from limpet.contracts.proxy.v1 import proxy_service_pb2 as pb
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceStub
from limpet.kit.bus import Bus
from limpet.kit.rpc import open_channel
from tests.conftest import Database
from tests.support.sealing import sealing_key
from tests.support.servers import free_port

PASSWORD = "pa55:w0rd"
PROXY = {"host": "Proxy.Test", "port": 8080, "username": "u", "password": PASSWORD, "country_code": "de"}
PATH = "/api/admin/proxies"


@dataclass(frozen=True)
class Running:
    """A broker process and ways to talk to it."""

    rest: httpx.AsyncClient
    grpc_address: str
    log: Path
    dsn: str


def headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
async def running(database: Database, nats_url: str, tmp_path: Path) -> AsyncIterator[Running]:
    dsn = await database("limpet.proxy_broker")
    ops, rest, rpc = free_port(), free_port(), free_port()
    keys = ",".join(f"{role}:{hashlib.sha256(role.encode()).hexdigest()}" for role in ("read", "operate", "admin"))
    settings = {
        "LIMPET_PG_DSN": dsn,
        "LIMPET_NATS_URL": nats_url,
        "LIMPET_OPS_PORT": str(ops),
        "LIMPET_HTTP_PORT": str(rest),
        "LIMPET_GRPC_PORT": str(rpc),
        "LIMPET_API_KEYS": keys,
        "LIMPET_SECRET_KEYS": sealing_key(),
        "LIMPET_LOG_LEVEL": "DEBUG",
    }
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "limpet.proxy_broker.main"], env={**os.environ, **settings}, stdout=out, stderr=out
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{rest}", headers=headers("admin")) as client:
            async with asyncio.timeout(30):
                while not await _answers(f"http://127.0.0.1:{ops}/readyz", f"http://127.0.0.1:{rest}/openapi.json"):
                    assert process.poll() is None, log.read_text()
                    await asyncio.sleep(0.05)
            yield Running(client, f"127.0.0.1:{rpc}", log, dsn)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


async def _answers(*urls: str) -> bool:
    async with httpx.AsyncClient() as client:
        try:
            return all([(await client.get(url)).status_code == 200 for url in urls])
        except httpx.TransportError:
            return False


async def test_a_proxy_is_added_leased_reported_and_removed(running: Running, bus: Bus) -> None:
    heard: asyncio.Queue[ProxyChanged] = asyncio.Queue()

    async def hear(data: bytes) -> None:
        await heard.put(ProxyChanged.FromString(data))

    await bus.subscribe("proxy.changed.*", hear)
    added = await running.rest.post(PATH, json=PROXY)
    assert added.status_code == 201, added.text
    proxy_id = added.json()["proxy_id"]
    assert added.json()["has_password"] is True
    assert (added.json()["host"], added.json()["country_code"]) == ("proxy.test", "DE")

    async with open_channel(running.grpc_address) as channel:
        stub = ProxyServiceStub(channel)
        want = pb.Want(domain="shop.test", country="de", task_id=1, attempt=1, ttl_seconds=5)
        lost = pb.Want(domain="shop.test", country="fr", task_id=2, attempt=1)
        answer = await stub.Lease(pb.LeaseRequest(holder="test", wants=[want, lost]), timeout=5)
        grant, refusal = answer.grants
        assert (grant.host, grant.port, grant.username, grant.password) == ("proxy.test", 8080, "u", PASSWORD)
        assert (refusal.lease_id, refusal.refusal) == (0, "no_country")
        assert refusal.retry_time.seconds > 0
        use = pb.Used(lease_id=grant.lease_id, outcome=pb.OUTCOME_SUCCESS, response_ms=120)
        assert (await stub.Report(pb.ReportRequest(uses=[use]), timeout=5)).taken == 1
        assert (await stub.Report(pb.ReportRequest(uses=[use]), timeout=5)).taken == 0

    pool = await running.rest.post("/api/admin/domain-proxies/Shop.test", json={"proxy_id": proxy_id, "priority": 1})
    assert pool.status_code == 200
    [pair] = (await running.rest.get("/api/admin/domain-proxies/shop.test")).json()["items"]
    assert (pair["assigned"], pair["priority"], pair["success_rate"], pair["avg_response_ms"]) == (True, 1, 1.0, 120.0)

    disabled = await running.rest.post(f"{PATH}/{proxy_id}/disable", headers=headers("operate"))
    assert (disabled.json()["active"], disabled.json()["operator_disabled"]) == (False, True)
    enabled = await running.rest.post(f"{PATH}/{proxy_id}/enable", headers=headers("operate"))
    assert enabled.json()["active"] is True
    listed = await running.rest.get(PATH, headers=headers("read"))
    one = await running.rest.get(f"{PATH}/{proxy_id}", headers=headers("read"))
    assert listed.json()["items"] == [one.json()]
    assert (await running.rest.delete(f"{PATH}/{proxy_id}")).status_code == 204
    assert (await running.rest.get(f"{PATH}/{proxy_id}")).status_code == 404

    async with asyncio.timeout(10):
        events = [await heard.get() for _ in range(4)]
    assert [(event.proxy_id, event.active, event.removed, event.reason) for event in events] == [
        (proxy_id, True, False, "added"),
        (proxy_id, False, False, "disabled"),
        (proxy_id, True, False, "enabled"),
        (proxy_id, False, True, "removed"),
    ]
    said = "".join(answer.text for answer in (added, disabled, enabled, listed, one)) + running.log.read_text()
    assert PASSWORD not in said


async def test_bad_requests_are_refused_with_the_field_and_write_nothing(running: Running) -> None:
    bad: list[tuple[dict[str, object], str]] = [
        ({**PROXY, "port": 0}, "port"),
        ({**PROXY, "port": "many"}, "port"),
        ({**PROXY, "host": "a b"}, "host"),
        ({**PROXY, "protocol": "ftp"}, "protocol"),
        ({**PROXY, "username": "a\r\nb"}, "username"),
        ({**PROXY, "password": PASSWORD * 200}, "password"),
        ({**PROXY, "country_code": "DEU"}, "country_code"),
        ({**PROXY, "colour": "red"}, "colour"),
        ({"port": 1}, "host"),
    ]
    for body, field in bad:
        answer = await running.rest.post(PATH, json=body)
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert [error["field"] for error in answer.json()["errors"]] == [field]
        assert PASSWORD not in answer.text
    assert (await running.rest.post(PATH, json=PROXY, headers=headers("operate"))).status_code == 403
    assert (await running.rest.post(PATH, json=PROXY, headers=headers("wrong"))).status_code == 401
    assert (await running.rest.get(f"{PATH}/{2**70}")).status_code == 422
    assert (await running.rest.post("/api/admin/domain-proxies/a.test", json={"proxy_id": 9})).status_code == 422
    assert (await running.rest.get(PATH)).json() == {"items": [], "next": None}

    assert (await running.rest.post(PATH, json=PROXY)).status_code == 201
    twice = await running.rest.post(PATH, json=PROXY)
    assert twice.status_code == 409
    for n in (1, 2):
        await running.rest.post(PATH, json={**PROXY, "port": n})
    first = (await running.rest.get(PATH, params={"limit": 2})).json()
    rest = (await running.rest.get(PATH, params={"limit": 2, "after": first["next"]})).json()
    assert [len(first["items"]), len(rest["items"]), rest["next"]] == [2, 1, None]


async def test_b10_grpc_refuses_what_the_contract_forbids_and_names_it(running: Running) -> None:
    wants = [
        (pb.Want(domain="", task_id=1, attempt=1), "wants[0].domain"),
        (pb.Want(domain="a.test", attempt=1), "wants[0].task_id"),
        (pb.Want(domain="a.test", task_id=1, country="x1"), "wants[0].country"),
        (pb.Want(domain="a.test", task_id=1, ttl_seconds=-1), "wants[0].ttl_seconds"),
        (pb.Want(domain="a.test", task_id=1, session_key="s" * 256), "wants[0].session_key"),
        (pb.Want(domain="a.test", task_id=1, session_key="a\0b"), "wants[0].session_key"),
    ]
    async with open_channel(running.grpc_address) as channel:
        stub = ProxyServiceStub(channel)
        for want, field in wants:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.Lease(pb.LeaseRequest(wants=[want]), timeout=5)
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert field in str(error.value.details())
        uses = [
            (pb.Used(lease_id=1), "uses[0].outcome"),
            (pb.Used(lease_id=1, outcome=pb.OUTCOME_SUCCESS, response_ms=-1), "uses[0].response_ms"),
            (pb.Used(lease_id=1, outcome=pb.OUTCOME_SUCCESS, byte_count=-1), "uses[0].byte_count"),
        ]
        for use, field in uses:
            with pytest.raises(grpc.aio.AioRpcError, match=re.escape(field)):
                await stub.Report(pb.ReportRequest(uses=[use]), timeout=5)
        with pytest.raises(grpc.aio.AioRpcError, match="holder"):
            await stub.Lease(pb.LeaseRequest(holder="h" * 256, wants=[]), timeout=5)
        assert not (await stub.Lease(pb.LeaseRequest(), timeout=5)).grants


async def test_b10_a_call_past_its_deadline_leases_nothing_that_its_next_try_does_not_get(running: Running) -> None:
    await running.rest.post(PATH, json=PROXY)
    conn = await asyncpg.connect(running.dsn)
    lock = conn.transaction()
    await lock.start()
    await conn.execute("SELECT FROM proxies FOR NO KEY UPDATE")
    async with open_channel(running.grpc_address) as channel:
        stub = ProxyServiceStub(channel)
        request = pb.LeaseRequest(wants=[pb.Want(domain="a.test", task_id=1, attempt=1)])
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub.Lease(request, timeout=0.5)
        assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await lock.rollback()
        assert (await stub.Lease(request, timeout=5)).grants[0].lease_id > 0
    assert await conn.fetchval("SELECT count(*) FROM leases") == 1
    assert await conn.fetchval("SELECT open_leases FROM proxies") == 1
    await conn.close()


async def test_b10_the_broker_answers_for_its_health_and_describes_itself(running: Running) -> None:
    async with open_channel(running.grpc_address) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service="limpet.contracts.proxy.v1.ProxyService"), timeout=5
        )
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol="limpet.contracts.proxy.v1.ProxyService")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]), timeout=5)
        described = (await call.read()).file_descriptor_response.file_descriptor_proto
    files = [descriptor_pb2.FileDescriptorProto.FromString(one) for one in described]
    assert [method.name for file in files for service in file.service for method in service.method] == [
        "Lease",
        "Report",
    ]
