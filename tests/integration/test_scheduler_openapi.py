"""The scheduler's API keeps its word: whatever is sent, no 5xx, and every answer is one that its OpenAPI declares."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import schemathesis
from schemathesis.engine import Status, events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder

from limpet.kit.bus import Bus
from limpet.kit.keys import Keys
from limpet.kit.rest import serve_rest
from limpet.scheduler.api.app import make_api
from limpet.scheduler.signature import Signer
from limpet.scheduler.store.batches import add_batch
from tests.conftest import PoolFactory
from tests.support.listening import listening
from tests.support.parts import running
from tests.support.scheduling import make_domain
from tests.support.servers import free_port
from tests.support.task_states import make_tasks

EXAMPLES = 20
KEYS = Keys((("admin", hashlib.sha256(b"admin").hexdigest()),))


def config(examples: int) -> dict[str, Any]:
    return {
        "headers": {"Authorization": "Bearer admin"},
        "continue-on-failure": True,
        "generation": {"max-examples": examples, "deterministic": True, "no-shrink": True, "database": "none"},
        "phases": {"stateful": {"enabled": False}},
        # Another method here is one of `/tasks/{task_id}`, with an id that is none.
        "operations": [
            {
                "include-path": ["/api/admin/tasks/bulk", "/api/admin/tasks/restart-failed"],
                "checks": {"unsupported_method": {"enabled": False}, "allow_header_conformance": {"enabled": False}},
            }
        ],
        "checks": {
            # 422 is also for what no schema can say: a URL of a domain that is not known, a zone that there is not.
            "positive_data_acceptance": {"enabled": False},
        },
    }


async def test_every_answer_to_anything_is_a_declared_one(pool_of: PoolFactory, bus: Bus) -> None:
    pool = await pool_of("limpet.scheduler")
    await make_domain(pool)
    await make_domain(pool, "empty.test")
    async with pool.acquire() as conn:
        await add_batch(conn, name="all", follow=False, recrawl=False, max_pages=None)
    await make_tasks(pool, batch="all")
    app = make_api(pool, bus, KEYS, submitted=lambda: None, changed=lambda: None, signer=Signer(b"m" * 32))
    port = free_port()
    async with running(serve_rest(app, host="127.0.0.1", port=port)):
        await listening(port)
        found = await asyncio.to_thread(lambda: list(faults(f"http://127.0.0.1:{port}/openapi.json")))
    assert not found, "\n\n".join(found)


def faults(url: str, examples: int = EXAMPLES) -> Iterator[str]:
    """What schemathesis has to complain about, each with the request that shows it."""
    schema = schemathesis.openapi.from_url(url, config=schemathesis.Config.from_dict(config(examples)))
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            yield str(event)
        elif isinstance(event, events.ScenarioFinished) and event.status is not Status.SUCCESS:
            yield from _failed(event.recorder)


def _failed(recorder: ScenarioRecorder) -> Iterator[str]:
    for case_id, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                failure = check.failure_info.failure
                yield f"{recorder.label}: {check.name}: {failure}\n{check.failure_info.code_sample}"
