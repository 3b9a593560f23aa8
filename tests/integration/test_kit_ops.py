"""What Kubernetes and Prometheus ask every process."""

from __future__ import annotations

import httpx
from prometheus_client import Counter

from limpet.kit.ops import Readiness, serve_ops
from tests.support.listening import listening
from tests.support.parts import running
from tests.support.servers import free_port

CALLS = Counter("limpet_test_ops_calls_total", "Made by a test.")


def test_a_process_is_ready_when_nothing_is_waited_for() -> None:
    readiness = Readiness()
    assert readiness.waiting_for == {"service": "starting"}
    readiness.set("nats", ok=False, why="refused")
    readiness.started()
    assert (readiness.ready, readiness.waiting_for) == (False, {"nats": "refused"})
    readiness.set("nats", ok=True)
    readiness.set("postgresql", ok=True)
    assert (readiness.ready, readiness.waiting_for) == (True, {})
    readiness.waiting_for["x"] = "a copy"
    assert readiness.ready


async def test_alive_is_not_ready_and_ready_says_what_is_waited_for() -> None:
    readiness, port = Readiness(), free_port()
    async with (
        running(serve_ops(readiness, host="127.0.0.1", port=port)),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        await listening(port)
        readiness.set("nats", ok=False, why="ConnectionRefusedError")
        assert (await client.get("/livez")).status_code == 200
        answer = await client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {
            "ready": False,
            "waiting_for": {"service": "starting", "nats": "ConnectionRefusedError"},
        }
        readiness.started()
        readiness.set("nats", ok=True)
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()) == (200, {"ready": True, "waiting_for": {}})
        assert (await client.get("/elsewhere")).status_code == 404


async def test_f11_liveness_fails_when_the_process_itself_is_stuck_and_says_with_what() -> None:
    readiness, port = Readiness(), free_port()
    async with running(serve_ops(readiness, host="127.0.0.1", port=port)), httpx.AsyncClient() as client:
        await listening(port)
        assert (await client.get(f"http://127.0.0.1:{port}/livez")).json() == {"alive": True}
        readiness.stuck = "parser #7 has not moved for 300 s"
        answer = await client.get(f"http://127.0.0.1:{port}/livez")
    assert (answer.status_code, answer.json()["alive"]) == (503, False)
    assert answer.json()["stuck"] == readiness.stuck


async def test_metrics_are_there_for_prometheus() -> None:
    port = free_port()
    CALLS.inc()
    async with running(serve_ops(Readiness(), host="127.0.0.1", port=port)), httpx.AsyncClient() as client:
        await listening(port)
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "limpet_test_ops_calls_total 1.0" in answer.text
    assert "limpet_bus_messages_total" in answer.text or "python_info" in answer.text
