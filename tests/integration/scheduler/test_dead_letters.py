"""Dead letters over REST: listed, looked into, sent again and dropped."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred
from limpet.contracts.events.v1.fetch_pb2 import FetchFailed, FetchRequested
from limpet.kit import tracing
from limpet.kit.bus import Bus, open_bus
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Permanent
from limpet.kit.pg import Pool
from limpet.kit.streams import FETCHER_HIGH, HEALTH_ERRORS, SCHEDULER_SETTLE_PAGES, ConsumerSpec
from limpet.scheduler.dead_letters import DeadLetters
from tests.support.parts import running
from tests.support.scheduler_api import as_role, fields, problem, scheduler_api
from tests.support.servers import nats_process
from tests.support.waiting import until

LETTERS = "/api/admin/dead-letters"


async def messages_in(bus: Bus, stream: str) -> int:
    return (await bus.client.jetstream().stream_info(stream)).state.messages


async def buried(bus: Bus, spec: ConsumerSpec, *, letters: int = 1) -> None:
    """The consumer refuses what its stream holds until so many letters are in the dead stream."""

    async def refuse(_delivery: Delivery) -> None:
        raise Permanent("no such thing")

    async def all_dead() -> bool:
        info = await bus.client.jetstream().consumer_info(spec.stream, spec.name)
        return await messages_in(bus, "DEAD") == letters and info.num_ack_pending == 0

    async with running(bus.consume(spec, refuse, slots=1)):
        await until(all_dead)


async def bury_errors(bus: Bus, *task_ids: int) -> None:
    """Each in a letter of its own."""
    for task_id in task_ids:
        before = await messages_in(bus, "DEAD")
        await bus.record(ErrorOccurred(task_id=task_id, message="broken"))
        await buried(bus, HEALTH_ERRORS, letters=before + 1)


async def bury_order(bus: Bus) -> None:
    await bus.publish_together([FetchRequested(task_id=9, attempt=1)], key="9:1", suffix="high")
    await buried(bus, FETCHER_HIGH)


async def listed(api: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    response = await api.get(LETTERS, params=query, headers=as_role("read"))
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def heard(bus: Bus, spec: ConsumerSpec) -> Delivery:
    """The next message that the consumer handles without complaint."""
    taken: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()

    async def take(delivery: Delivery) -> None:
        taken.set_result(delivery)

    async with running(bus.consume(spec, take, slots=1)):
        return await asyncio.wait_for(taken, 10)


async def test_a_buried_message_is_listed_with_where_it_came_from_and_why(bus: Bus, api: httpx.AsyncClient) -> None:
    assert await listed(api) == []
    await asyncio.gather(*(bus.record(ErrorOccurred(task_id=number, message="broken")) for number in (1, 2, 3)))
    await buried(bus, HEALTH_ERRORS)
    (item,) = await listed(api)
    assert item.pop("size_bytes") > 10
    age = datetime.now(UTC) - datetime.fromisoformat(item.pop("buried_at"))
    assert timedelta(seconds=-5) < age < timedelta(minutes=1)
    assert item == {
        "id": 1,
        "subject": "error.occurred",
        "consumer": "health-errors",
        "error": "Permanent: no such thing",
        "records": 3,
    }


async def test_a_letter_is_shown_as_the_kind_that_its_subject_promises(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_errors(bus, 5)
    (item,) = await listed(api)
    response = await api.get(f"{LETTERS}/{item['id']}", headers=as_role("read"))
    assert response.status_code == 200
    body = response.json()
    assert body.items() >= item.items()
    assert body["kind"] == "ErrorOccurred"
    assert body["content"] == [{"message": {"task_id": "5", "message": "broken"}}]


async def test_bytes_that_are_no_message_are_shown_as_hex(bus: Bus, api: httpx.AsyncClient) -> None:
    async def read(delivery: Delivery) -> None:
        delivery.records(FetchFailed)

    async def there() -> bool:
        return bool(await listed(api))

    await bus.client.jetstream().publish("crawl.fetch.failed", b"\xff" * 300)
    async with running(bus.consume(SCHEDULER_SETTLE_PAGES, read, slots=1)):
        await until(there)
    (item,) = await listed(api)
    assert item["records"] is None
    assert item["size_bytes"] == 300
    assert item["error"].startswith("Undecodable: ")
    body = (await api.get(f"{LETTERS}/{item['id']}")).json()
    assert body["content"] == [{"hex": "ff" * 256}]


async def test_a_replayed_letter_reaches_its_consumer_as_it_was_and_is_gone(bus: Bus, api: httpx.AsyncClient) -> None:
    parent = tracing.new_traceparent(sampled=True)
    await bus.publish(FetchFailed(task_id=4, error="reset"), key="fetch-settled:4:1", traceparent=parent)
    await buried(bus, SCHEDULER_SETTLE_PAGES)
    (item,) = await listed(api)
    replayed = await api.post(f"{LETTERS}/{item['id']}/replay", headers=as_role("operate"))
    assert replayed.status_code == 200
    assert replayed.json() == {"id": item["id"], "subject": "crawl.fetch.failed"}
    delivery = await heard(bus, SCHEDULER_SETTLE_PAGES)
    assert delivery.message(FetchFailed) == FetchFailed(task_id=4, error="reset")
    assert delivery.subject == "crawl.fetch.failed"
    assert delivery.headers[tracing.HEADER] == parent
    assert delivery.headers["Nats-Msg-Id"] != "fetch-settled:4:1"
    assert [name for name in delivery.headers if name.startswith("Limpet-")] == []
    assert await listed(api) == []
    assert fields(await api.post(f"{LETTERS}/{item['id']}/replay"), 404) == ["letter_id"]


async def test_two_people_replay_a_letter_at_once_and_it_is_published_once(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_errors(bus, 1)
    before = await messages_in(bus, "ERRORS")
    answers = await asyncio.gather(*(api.post(f"{LETTERS}/1/replay") for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404, 404]
    assert await messages_in(bus, "ERRORS") == before + 1


async def test_a_letter_that_the_server_did_not_take_stays(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_errors(bus, 1)
    await bus.client.jetstream().delete_stream("ERRORS")
    problem(await api.post(f"{LETTERS}/1/replay"), 503)
    assert len(await listed(api)) == 1

    async def taken() -> bool:
        await bus.ensure()
        return (await api.post(f"{LETTERS}/1/replay")).status_code == 200

    await until(taken)
    assert await listed(api) == []
    assert await messages_in(bus, "ERRORS") == 1


async def test_a_letter_that_fails_again_is_a_new_letter(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_errors(bus, 1)
    assert (await api.post(f"{LETTERS}/1/replay")).status_code == 200
    await buried(bus, HEALTH_ERRORS)
    assert [item["id"] for item in await listed(api)] == [2]
    assert (await api.post(f"{LETTERS}/2/replay")).status_code == 200
    assert await messages_in(bus, "ERRORS") == 3


async def test_an_order_is_shown_and_not_replayed(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_order(bus)
    before = await messages_in(bus, "FETCH")
    body = (await api.get(f"{LETTERS}/1")).json()
    assert (body["kind"], body["records"]) == ("FetchRequested", 1)
    assert body["content"] == [{"message": {"task_id": "9", "attempt": 1}}]
    refused = await api.post(f"{LETTERS}/1/replay")
    assert fields(refused, 409) == ["subject"]
    assert "permit" in refused.json()["detail"]
    assert len(await listed(api)) == 1
    assert await messages_in(bus, "FETCH") == before


async def test_a_letter_of_nobody_knows_where_is_shown_and_not_replayed(bus: Bus, api: httpx.AsyncClient) -> None:
    await bus.client.jetstream().publish("dead.stray", b"\x00\x01")
    (item,) = await listed(api)
    assert (item["subject"], item["consumer"], item["error"]) == ("", "", "")
    assert (await api.get(f"{LETTERS}/1")).json()["content"] == [{"hex": "0001"}]
    assert fields(await api.post(f"{LETTERS}/1/replay"), 409) == ["subject"]


async def test_letters_come_in_pages_and_by_consumer(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_order(bus)
    await bury_errors(bus, 1, 2, 3, 4)
    await api.delete(f"{LETTERS}/3")
    seen: list[int] = []
    page: dict[str, Any] = {"next": 0}
    while (after := page["next"]) is not None:
        page = (await api.get(LETTERS, params={"limit": 2, "after": after})).json()
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
    assert seen == [1, 2, 4, 5]
    assert [item["id"] for item in await listed(api, consumer="health-errors")] == [2, 4, 5]
    assert [item["id"] for item in await listed(api, consumer="health-errors", after=2, limit=1)] == [4]
    assert [item["id"] for item in await listed(api, consumer="fetcher-high")] == [1]
    assert await listed(api, consumer="parser") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"consumer": "a.b"}, "consumer"),
        ({"consumer": "*"}, "consumer"),
        ({"consumer": ">"}, "consumer"),
        ({"limit": 1001}, "limit"),
        ({"after": -1}, "after"),
        ({"after": 1 << 64}, "after"),
    ],
)
async def test_a_wrong_question_is_named(api: httpx.AsyncClient, query: dict[str, Any], field: str) -> None:
    assert fields(await api.get(LETTERS, params=query), 422) == [field]


async def test_a_dropped_letter_is_gone(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_errors(bus, 1, 2)
    before = await messages_in(bus, "ERRORS")
    assert (await api.delete(f"{LETTERS}/1")).status_code == 204
    for answer in (await api.delete(f"{LETTERS}/1"), await api.get(f"{LETTERS}/1")):
        assert fields(answer, 404) == ["letter_id"]
    assert [item["id"] for item in await listed(api)] == [2]
    assert await messages_in(bus, "ERRORS") == before


@pytest.mark.parametrize("letter_id", [0, -1, 12, 1 << 63, 1 << 80])
async def test_a_letter_that_never_was_is_not_found(api: httpx.AsyncClient, letter_id: int) -> None:
    for method, path in (("GET", ""), ("POST", "/replay"), ("DELETE", "")):
        problem(await api.request(method, f"{LETTERS}/{letter_id}{path}"), 404)


async def test_reading_replaying_and_dropping_need_their_roles(bus: Bus, api: httpx.AsyncClient) -> None:
    await bury_errors(bus, 1)
    problem(await api.get(LETTERS, headers=as_role("nobody")), 401)
    problem(await api.post(f"{LETTERS}/1/replay", headers=as_role("read")), 403)
    problem(await api.delete(f"{LETTERS}/1", headers=as_role("operate")), 403)
    assert len(await listed(api)) == 1


async def test_a_nats_that_is_away_is_a_503_and_the_letters_are_there_afterwards(pool: Pool) -> None:
    with nats_process() as server:
        server.start()
        async with open_bus(server.url, name="test") as bus, scheduler_api(pool, bus) as api:
            await bury_errors(bus, 1)
            server.kill()

            async def lost() -> bool:
                return not bus.client.is_connected

            await until(lost)
            for method, path in (("GET", ""), ("GET", "/1"), ("POST", "/1/replay"), ("DELETE", "/1")):
                body = problem(await api.request(method, f"{LETTERS}{path}"), 503)
                assert "NATS" in body["detail"]
            server.start()

            async def back() -> bool:
                return (await api.get(LETTERS)).status_code == 200

            await until(back, seconds=20)
            assert [item["id"] for item in await listed(api)] == [1]


async def test_the_gauge_follows_the_dead_stream(bus: Bus, api: httpx.AsyncClient) -> None:
    def counted(letters: int) -> Any:
        async def there() -> bool:
            return REGISTRY.get_sample_value("limpet_scheduler_dead_letters") == letters

        return until(there)

    await bury_errors(bus, 1, 2)
    async with running(DeadLetters(bus).run(every=0.02)):
        await counted(2)
        await api.delete(f"{LETTERS}/1")
        await counted(1)
        # A stream that is missing for a while does not end the part.
        await bus.client.jetstream().delete_stream("DEAD")
        await until(lambda: _made_again(bus))
        await counted(0)


async def _made_again(bus: Bus) -> bool:
    await bus.ensure()
    streams = await bus.client.jetstream().streams_info()
    return any(stream.config.name == "DEAD" for stream in streams)
