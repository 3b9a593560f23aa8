"""The scheduler's API keeps its word: whatever is sent, no 5xx, and every answer is one that its OpenAPI declares."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import schemathesis
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder

from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred
from limpet.kit.bus import Bus, subject_of
from limpet.kit.keys import Keys
from limpet.kit.pg import Pool
from limpet.kit.rest import serve_rest
from limpet.scheduler.api.app import make_api
from limpet.scheduler.api.run_forms import RunIn
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.runs.start import Wish, start_run
from limpet.scheduler.signature import Signer
from limpet.scheduler.store.batches import add_batch
from limpet.scheduler.store.run_schedules import add_schedule
from limpet.scheduler.store.webhooks import Delivery, add_deliveries
from limpet.scheduler.submit import submit
from tests.conftest import PoolFactory
from tests.support.listening import listening
from tests.support.parts import running
from tests.support.scheduling import make_domain
from tests.support.servers import free_port
from tests.support.task_states import make_tasks

FAR: Final = datetime(2999, 1, 1, tzinfo=UTC)
KEYS: Final = Keys((("admin", hashlib.sha256(b"admin").hexdigest()),))


CONFIG: Final[dict[str, Any]] = {
    "headers": {"Authorization": "Bearer admin"},
    "continue-on-failure": True,
    "generation": {"max-examples": 20, "deterministic": True, "no-shrink": True, "database": "none"},
    # A first answer that is given again for its key may name what has been deleted since; sequences would stumble over it.
    "phases": {"stateful": {"enabled": False}},
    "operations": [
        {
            # Another method of these paths is one of `/tasks/{task_id}`, with an id that is none: 422.
            "include-path": ["/api/admin/tasks/bulk", "/api/admin/tasks/restart-failed"],
            "checks": {"unsupported_method": {"enabled": False}, "allow_header_conformance": {"enabled": False}},
        }
    ],
    # 422 is also for what no schema can say: a URL of a domain that is not known, a zone that there is not.
    "checks": {"positive_data_acceptance": {"enabled": False}},
}


async def test_every_answer_to_anything_is_a_declared_one(pool_of: PoolFactory, bus: Bus) -> None:
    pool = await pool_of("limpet.scheduler")
    await furnish(pool, bus)
    app = make_api(pool, bus, KEYS, submitted=lambda: None, changed=lambda: None, signer=Signer(b"m" * 32))
    port = free_port()
    async with running(serve_rest(app, host="127.0.0.1", port=port)):
        await listening(port)
        good, wrong = await asyncio.to_thread(ask_everything, f"http://127.0.0.1:{port}/openapi.json")
    assert not wrong, "\n\n".join(wrong)
    # Where everything is refused nothing is looked at.
    assert len(good) > 28, good


async def furnish(pool: Pool, bus: Bus) -> None:
    """Something of everything that can be asked for."""
    await make_domain(pool)
    await make_domain(pool, "empty.test", maintenance_start="01:00", maintenance_end="02:30", obey_robots=True)
    delivery = Delivery(uuid4(), "http://hooks.test/", "http://hooks.test:80", "task.ended", "{}")
    async with pool.acquire() as conn, conn.transaction():
        await add_batch(conn, name="all", follow=False, recrawl=False, max_pages=None)
        await add_deliveries(conn, [delivery])
    tasks = await make_tasks(pool, batch="all")
    wishes: list[dict[str, Any]] = [
        {"url": "http://shop.test/child", "parent_task_id": tasks[Status.PENDING], "group_key": "g"},
        {"url": "http://empty.test/"},
    ]
    await submit(pool, wishes, batch=None)
    schedule: dict[str, Any] = {"cron": "0 4 * * *", "zone": "UTC", "is_active": True, "wish": "{}", "next_run_at": FAR}
    async with pool.acquire() as conn, conn.transaction():
        await start_run(conn, wish("shop.test"))
        await add_schedule(conn, "nightly", site="shop.test", **schedule)
    for number in range(3):
        headers = {"Limpet-Subject": subject_of(ErrorOccurred), "Limpet-Consumer": "c", "Limpet-Error": "no"}
        await bus.client.jetstream().publish("dead.c", b"", headers=headers | {"Nats-Msg-Id": f"letter {number}"})


def wish(site: str) -> Wish:
    body = RunIn(site=site, start_pages=[f"http://{site}/list/1"])
    return body.wish(uuid4(), created_by="test")


def ask_everything(url: str) -> tuple[set[str], list[str]]:
    """The operations that gave a good answer at least once, and what is wrong, each with a request that shows it."""
    schema = schemathesis.openapi.from_url(url, config=schemathesis.Config.from_dict(CONFIG))
    good, wrong = set(), []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            wrong.append(str(event))
        elif isinstance(event, events.ScenarioFinished):
            wrong += complaints(event.recorder)
            answers = [one.response for one in event.recorder.interactions.values() if one.response is not None]
            if any(answer.status_code < 300 for answer in answers):
                good.add(event.recorder.label)
    return good, wrong


def complaints(recorder: ScenarioRecorder) -> Iterator[str]:
    for checks in recorder.checks.values():
        for check in checks:
            if check.failure_info is not None:
                yield f"{recorder.label}: {check.name}: {check.failure_info.failure}\n{check.failure_info.code_sample}"
