"""A process that watches itself, on real NATS and PostgreSQL: what stalls is found, told, broken off or ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from limpet.cli.local.postgres import SUPERUSER, Postgres
from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred
from limpet.kit.bus import Bus, Handler, open_bus
from limpet.kit.delivery import Delivery
from limpet.kit.errors import CannotRecover
from limpet.kit.ops import Readiness
from limpet.kit.pg import Pool, open_pool
from limpet.kit.selfcheck import EXIT_NATS_CLOSED, EXIT_STALLED, Selfcheck
from limpet.kit.streams import HEALTH_ERRORS
from tests.support.parts import running
from tests.support.relay import Relay
from tests.support.servers import nats_process
from tests.support.waiting import until

AFTER = 0.4


@pytest.fixture
async def pool(postgres: Postgres) -> AsyncIterator[Pool]:
    async with open_pool(postgres.dsn("postgres"), size=2) as pool:
        yield pool


@asynccontextmanager
async def handling(bus: Bus, handler: Handler) -> AsyncIterator[None]:
    """One message is on its way to the handler."""
    async with running(bus.consume(HEALTH_ERRORS, handler, slots=4)):
        await bus.record(ErrorOccurred(task_id=1))
        yield


def told(logs: list[Any]) -> list[dict[str, Any]]:
    return [entry for entry in logs if entry["event"] == "stall_detected"]


async def test_f11_a_stall_is_told_with_diagnostics_and_broken_off_and_another_takes_the_work(
    bus: Bus, pool: Pool
) -> None:
    readiness, tries, done = Readiness(), [0], asyncio.Event()

    async def stuck_once(delivery: Delivery) -> None:
        tries[0] += 1
        if tries[0] == 1:
            await asyncio.Event().wait()
        assert delivery.redelivered
        done.set()

    check = Selfcheck(bus, pool, readiness, after=AFTER)
    with capture_logs() as logs:
        async with handling(bus, stuck_once), running(check.run()):
            await asyncio.wait_for(done.wait(), 10)

            async def well() -> bool:
                return not readiness.stuck and len(bus.in_hand) == 0

            await until(well)
    (entry,) = told(logs)
    assert (entry["database"], entry["nats"], entry["network"]) == ("ok", "ok", "not checked")
    (piece,) = entry["in_hand"]
    assert piece["what"] == "health-errors #1"
    assert piece["silent_seconds"] >= AFTER - 0.05
    assert "test_kit_selfcheck.py" in piece["where"] or "locks.py" in piece["where"]
    assert "stall_ended" in [entry["event"] for entry in logs]


async def test_f11_work_that_cannot_be_broken_off_ends_the_process_with_its_code(bus: Bus, pool: Pool) -> None:
    readiness, finish = Readiness(), asyncio.Event()

    async def stubborn(_delivery: Delivery) -> None:
        while not finish.is_set():
            try:
                await finish.wait()
            except asyncio.CancelledError:
                continue

    check = asyncio.create_task(Selfcheck(bus, pool, readiness, after=AFTER).run())
    async with handling(bus, stubborn):
        with pytest.raises(CannotRecover) as end:
            await asyncio.wait_for(check, 10)
        assert end.value.code == EXIT_STALLED == 70
        assert "health-errors" in readiness.stuck, "/livez fails: this very process is stuck"
        finish.set()


async def test_f11_a_stall_that_a_lost_database_explains_is_waited_out(bus: Bus, postgres: Postgres) -> None:
    relay, readiness = Relay(postgres.port), Readiness()
    await relay.open()
    finish, cancelled = asyncio.Event(), asyncio.Event()

    async def waiting_for_the_database(_delivery: Delivery) -> None:
        try:
            await finish.wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    dsn = f"postgresql://{SUPERUSER}:{quote(postgres.password)}@127.0.0.1:{relay.port}/postgres"
    async with open_pool(dsn, size=2) as pool:
        await relay.close()
        check = Selfcheck(bus, pool, readiness, after=AFTER)
        with capture_logs() as logs:
            async with handling(bus, waiting_for_the_database), running(check.run()) as checking:

                async def said() -> bool:
                    return bool(told(logs))

                await until(said)
                now = asyncio.get_running_loop().time()
                for later in range(1, 50):
                    await check.look(now + later * AFTER)
                assert not checking.done()
                assert (readiness.stuck, cancelled.is_set()) == ("", False)
                finish.set()

                async def ended() -> bool:
                    return "stall_ended" in [entry["event"] for entry in logs]

                await until(ended)
        (entry,) = told(logs)
        assert entry["database"] != "ok"
        await relay.close()


async def test_f11_a_network_that_is_down_explains_a_stall(bus: Bus, pool: Pool) -> None:
    readiness, finish = Readiness(), asyncio.Event()

    async def down() -> str:
        return "no target answers"

    async def handler(_delivery: Delivery) -> None:
        await finish.wait()

    check = Selfcheck(bus, pool, readiness, after=AFTER, network=down)
    with capture_logs() as logs:
        async with handling(bus, handler), running(check.run()):

            async def said() -> bool:
                return bool(told(logs))

            await until(said)
            assert not readiness.stuck
            finish.set()
    assert told(logs)[0]["network"] == "no target answers"


async def test_f11_a_connection_that_nats_closed_for_good_ends_the_process(pool: Pool) -> None:
    with nats_process() as server:
        server.start()
        async with open_bus(server.url, name="test") as bus:
            check = asyncio.create_task(Selfcheck(bus, pool, Readiness(), after=2.0).run())
            # A protocol error that the server answers with -ERR: the client closes and never tries again.
            await bus.client._send_command(b"NONSENSE\r\n")
            await bus.client._flush_pending()
            with pytest.raises(CannotRecover) as end:
                await asyncio.wait_for(check, 10)
            assert end.value.code == EXIT_NATS_CLOSED == 69


async def test_f1_a_drain_takes_all_that_was_on_its_way_and_nothing_more(bus: Bus) -> None:
    taken: list[int] = []
    finish = asyncio.Event()

    async def handler(delivery: Delivery) -> None:
        taken.extend(record.task_id for record in delivery.records(ErrorOccurred))
        await finish.wait()

    async with running(bus.consume(HEALTH_ERRORS, handler, slots=50)):
        for number in range(10):
            await bus.publish_together([ErrorOccurred(task_id=number)], key=f"{number}")
        draining = asyncio.create_task(bus.drain(10))

        async def stopped() -> bool:
            info = await bus._js.consumer_info(HEALTH_ERRORS.stream, HEALTH_ERRORS.name)
            return not info.num_waiting

        await until(stopped)
        await bus.publish_together([ErrorOccurred(task_id=99)], key="99")
        assert not draining.done()
        finish.set()
        await draining
        assert sorted(taken) == list(range(10))

        async def settled() -> bool:
            info = await bus._js.consumer_info(HEALTH_ERRORS.stream, HEALTH_ERRORS.name)
            assert info.num_pending == 1, "what came later is for another"
            # The server takes acks in its own time; what was delivered and nobody took would stay for 30 s.
            return not info.num_ack_pending

        await until(settled)


async def test_f1_work_that_a_stop_cuts_off_goes_to_another_at_once(nats_url: str) -> None:
    async with open_bus(nats_url, name="first") as first, open_bus(nats_url, name="second") as second:
        begun, taken = asyncio.Event(), asyncio.Event()

        async def hanging(_delivery: Delivery) -> None:
            begun.set()
            await asyncio.Event().wait()

        async def quick(delivery: Delivery) -> None:
            assert delivery.redelivered
            taken.set()

        async with running(first.consume(HEALTH_ERRORS, hanging, slots=1)):
            await first.record(ErrorOccurred(task_id=1))
            await asyncio.wait_for(begun.wait(), 10)
        async with running(second.consume(HEALTH_ERRORS, quick, slots=1)):
            # Far sooner than the 30 s after which the server would deliver it by itself.
            await asyncio.wait_for(taken.wait(), 5)
