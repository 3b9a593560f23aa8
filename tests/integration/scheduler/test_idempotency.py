"""`Idempotency-Key`: a request that is sent twice happens once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from limpet.kit.pg import Pool
from limpet.scheduler.store.idempotency import Key, claim_key, keep_answer, prune_keys
from tests.support.scheduler_api import as_role, fields, problem
from tests.support.waiting import until

BATCHES = "/api/admin/batches"
REPLAYED = "Idempotent-Replayed"


def keyed(key: str, role: str = "operate") -> dict[str, str]:
    return {"Idempotency-Key": key, **as_role(role)}


async def make_batch(api: httpx.AsyncClient, name: str, key: str, role: str = "operate") -> httpx.Response:
    return await api.post(BATCHES, json={"name": name}, headers=keyed(key, role))


async def batches(pool: Pool) -> list[str]:
    return [row["name"] for row in await pool.fetch("SELECT name FROM batches ORDER BY batch_id")]


async def kept(pool: Pool) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM idempotency_keys"))


@pytest.mark.parametrize(
    ("path", "body", "other", "status", "count"),
    [
        (
            "/api/admin/tasks",
            {"url": "http://shop.test/1"},
            {"url": "http://shop.test/2"},
            201,
            "SELECT count(*) FROM crawl_tasks",
        ),
        (
            "/api/admin/tasks/bulk",
            {"tasks": [{"url": "http://shop.test/1"}]},
            {"tasks": [{"url": "http://shop.test/2"}]},
            200,
            "SELECT count(*) FROM crawl_tasks",
        ),
        (
            "/api/admin/domains",
            {"name": "new.test"},
            {"name": "other.test"},
            201,
            "SELECT count(*) FROM domains WHERE name <> 'shop.test'",
        ),
        (BATCHES, {"name": "spring"}, {"name": "autumn"}, 201, "SELECT count(*) FROM batches"),
    ],
    ids=["task", "bulk", "domain", "batch"],
)
async def test_a_repeat_gets_the_first_answer_and_does_nothing(
    pool: Pool, api: httpx.AsyncClient, path: str, body: Any, other: Any, status: int, count: str
) -> None:
    assert (await api.post("/api/admin/domains", json={"name": "shop.test"})).status_code == 201
    first = await api.post(path, json=body, headers=keyed("one"))
    assert first.status_code == status, first.text
    assert REPLAYED not in first.headers
    # What it made is gone, so a repeat that is carried out would make it again.
    await pool.execute("TRUNCATE crawl_tasks, batches CASCADE")
    await pool.execute("DELETE FROM domains WHERE name <> 'shop.test'")
    again = await api.post(path, json=body, headers=keyed("one"))
    assert (again.status_code, again.content) == (status, first.content)
    assert again.headers[REPLAYED] == "true"
    assert again.headers["content-type"] == "application/json"
    assert fields(await api.post(path, json=other, headers=keyed("one")), 422) == ["Idempotency-Key"]
    assert await pool.fetchval(count) == 0
    assert (await api.post(path, json=body, headers=keyed("two"))).status_code == status
    assert await pool.fetchval(count) == 1


async def test_without_a_key_nothing_is_kept(pool: Pool, api: httpx.AsyncClient) -> None:
    assert (await api.post(BATCHES, json={"name": "spring"})).status_code == 201
    problem(await api.post(BATCHES, json={"name": "spring"}), 409)
    assert await kept(pool) == 0


async def test_a_repeat_while_the_first_still_runs_is_told_to_wait(pool: Pool, api: httpx.AsyncClient) -> None:
    async def claimed() -> bool:
        return await kept(pool) == 1

    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("LOCK TABLE batches IN ACCESS EXCLUSIVE MODE")
        first = asyncio.create_task(make_batch(api, "spring", "one"))
        await until(claimed)
        repeat = await make_batch(api, "spring", "one")
        assert fields(repeat, 409) == ["Idempotency-Key"]
        assert repeat.headers["Retry-After"] == "1"
        assert fields(await make_batch(api, "autumn", "one"), 422) == ["Idempotency-Key"]
        assert not first.done()
    made = await first
    assert made.status_code == 201
    again = await make_batch(api, "spring", "one")
    assert (again.status_code, again.content) == (201, made.content)
    assert await batches(pool) == ["spring"]


async def test_many_at_once_make_one(pool: Pool, api: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(make_batch(api, "spring", "one") for _ in range(8)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert [REPLAYED in answer.headers for answer in answers if answer.status_code == 201].count(False) == 1
    assert await batches(pool) == ["spring"]


@pytest.mark.parametrize(
    "keys",
    [[b""], [b"x" * 256], [b"caf\xc3\xa9"], [b"a\tb"], [b"a\x7f"], [b"one", b"two"]],
    ids=["empty", "long", "letters", "tab", "delete", "two"],
)
async def test_a_key_that_is_none_is_refused_by_name(pool: Pool, api: httpx.AsyncClient, keys: list[bytes]) -> None:
    headers = [(b"authorization", b"Bearer operate"), *((b"idempotency-key", key) for key in keys)]
    assert fields(await api.post(BATCHES, json={"name": "spring"}, headers=headers), 400) == ["Idempotency-Key"]
    assert await batches(pool) == []


async def test_the_longest_key_is_taken(api: httpx.AsyncClient) -> None:
    key = "~ " * 127 + "x"
    assert (await make_batch(api, "spring", key)).status_code == 201
    assert (await make_batch(api, "spring", key)).headers[REPLAYED] == "true"


async def test_a_fault_of_the_server_frees_the_key(pool: Pool, api: httpx.AsyncClient) -> None:
    await pool.execute("ALTER TABLE batches RENAME TO away")
    problem(await make_batch(api, "spring", "one"), 500)
    assert await kept(pool) == 0
    await pool.execute("ALTER TABLE away RENAME TO batches")
    made = await make_batch(api, "spring", "one")
    assert made.status_code == 201
    assert REPLAYED not in made.headers


async def test_a_refused_request_may_be_put_right_under_its_key(pool: Pool, api: httpx.AsyncClient) -> None:
    assert (await api.post(BATCHES, json={"name": "spring"})).status_code == 201
    assert fields(await make_batch(api, "spring", "one"), 409) == ["name"]
    assert fields(await make_batch(api, "", "one"), 422) == ["name"]
    assert (await make_batch(api, "autumn", "one")).status_code == 201
    assert await batches(pool) == ["spring", "autumn"]


async def test_a_crashed_request_holds_its_key_for_a_minute_and_answers_no_more(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    key = Key(hashlib.sha256(b"operate").digest(), BATCHES, "one")
    assert (await make_batch(api, "first", "one")).status_code == 201
    # The same row as a process leaves it that dies while it runs.
    await pool.execute("UPDATE idempotency_keys SET status = NULL, content_type = NULL, answer = NULL")
    dead = await pool.fetchval("SELECT claim FROM idempotency_keys")
    await pool.execute("UPDATE idempotency_keys SET created_at = now() - interval '55 seconds'")
    assert fields(await make_batch(api, "first", "one"), 409) == ["Idempotency-Key"]
    await pool.execute("UPDATE idempotency_keys SET created_at = now() - interval '61 seconds'")
    made = await make_batch(api, "second", "one")
    assert made.status_code == 201
    # It was not dead but slow, and comes too late to answer for the key.
    async with pool.acquire() as conn:
        await keep_answer(conn, key, claim=dead, status=200, content_type="text/plain", answer=b"late")
    assert (await make_batch(api, "second", "one")).content == made.content


async def test_an_answer_is_kept_for_a_day_and_pruned_after_it(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_batch(api, "first", "one")
    await make_batch(api, "second", "two")
    await pool.execute("UPDATE idempotency_keys SET created_at = now() - interval '23 hours'")
    assert (await make_batch(api, "first", "one")).headers[REPLAYED] == "true"
    async with pool.acquire() as conn:
        assert await prune_keys(conn) == 0
        await pool.execute("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
        fresh = await make_batch(api, "third", "one")
        assert (fresh.status_code, REPLAYED in fresh.headers) == (201, False)
        assert await prune_keys(conn) == 1
    assert (await make_batch(api, "third", "one")).headers[REPLAYED] == "true"


async def test_callers_and_routes_do_not_share_keys(pool: Pool, api: httpx.AsyncClient) -> None:
    assert (await make_batch(api, "first", "one", "operate")).status_code == 201
    assert (await make_batch(api, "second", "one", "admin")).status_code == 201
    domain = await api.post("/api/admin/domains", json={"name": "shop.test"}, headers=keyed("one"))
    assert domain.status_code == 201
    assert await batches(pool) == ["first", "second"]


async def test_a_stranger_leaves_no_trace_and_a_weak_key_holds_nothing(pool: Pool, api: httpx.AsyncClient) -> None:
    problem(await make_batch(api, "first", "one", "nobody"), 401)
    # Not even told that its key is none.
    problem(await make_batch(api, "first", "x" * 256, "nobody"), 401)
    problem(await make_batch(api, "first", "one", "read"), 403)
    assert await kept(pool) == 0


async def test_a_body_that_is_too_large_is_refused_as_ever(pool: Pool, api: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * (1 << 20)

    problem(await api.post(BATCHES, content=chunks(), headers=keyed("one")), 413)
    assert await kept(pool) == 0


async def test_two_claims_of_one_key_are_never_both_granted(pool: Pool) -> None:
    key = Key(b"\x00" * 32, BATCHES, "one")

    async def claim() -> object:
        async with pool.acquire() as conn:
            return await claim_key(conn, key, body_hash=b"\x01" * 32)

    granted = [found for found in await asyncio.gather(*(claim() for _ in range(20))) if found is not None]
    assert len(granted) == 1


async def test_the_header_is_in_the_description_of_every_post_that_takes_it(api: httpx.AsyncClient) -> None:
    paths = (await api.get("/openapi.json")).json()["paths"]
    for path in ("/api/admin/tasks", "/api/admin/tasks/bulk", "/api/admin/domains", BATCHES):
        names = [parameter["name"] for parameter in paths[path]["post"]["parameters"]]
        assert names.count("Idempotency-Key") == 1
    assert "Idempotency-Key" not in str(paths["/api/admin/tasks"]["get"])
