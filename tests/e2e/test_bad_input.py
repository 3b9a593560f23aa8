"""Bad input: a problem+json 4xx that names the field, and nothing half-written."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.door import Door

KNOWN = "known.example"
BAD: list[tuple[str, str, object, int, str]] = [
    ("POST", "/api/admin/tasks", {"url": "not a url"}, 422, "url"),
    ("POST", "/api/admin/tasks", {"url": "ftp://known.example/"}, 422, "url"),
    ("POST", "/api/admin/tasks", {"url": "http://known.example:99999/"}, 422, "url"),
    ("POST", "/api/admin/tasks", {"url": "http://unknown.example/"}, 422, "url"),
    ("POST", "/api/admin/tasks", {"url": "http://known.example/", "colour": "red"}, 422, "colour"),
    ("POST", "/api/admin/tasks", {"url": 5}, 422, "url"),
    ("POST", "/api/admin/tasks", {}, 422, "url"),
    ("POST", "/api/admin/tasks", {"url": "http://known.example/", "priority": 11}, 422, "priority"),
    ("POST", "/api/admin/tasks", {"url": "http://known.example/", "priority": "high"}, 422, "priority"),
    ("POST", "/api/admin/tasks", {"url": "http://known.example/", "batch": "no such batch"}, 422, "batch"),
    ("POST", "/api/admin/tasks", {"url": "http://known.example/", "scheduled_at": "tomorrow"}, 422, "scheduled_at"),
    ("POST", "/api/admin/tasks/bulk", {"tasks": []}, 422, "tasks"),
    ("POST", "/api/admin/tasks/bulk", {"tasks": [{"url": "http://known.example/"}, {"link": "x"}]}, 422, "tasks.1.url"),
    ("POST", "/api/admin/domains", {"name": "http://known.example/"}, 422, "name"),
    ("POST", "/api/admin/domains", {"name": "new.example", "crawl_delay_seconds": -1}, 422, "crawl_delay_seconds"),
    ("POST", "/api/admin/domains", {"name": "new.example", "base_url": "http://other.example/"}, 422, "base_url"),
    ("POST", "/api/admin/domains", {"name": "new.example", "user_agent": "a\r\nX-Evil: 1"}, 422, "user_agent"),
    ("POST", "/api/admin/domains", {"name": KNOWN}, 409, "name"),
    ("PATCH", "/api/admin/domains/unknown.example", {"is_active": False}, 404, "name"),
    ("GET", "/api/admin/tasks/999999999", None, 404, "task_id"),
    ("GET", "/api/admin/tasks/abc", None, 422, "task_id"),
    ("GET", "/api/admin/tasks?status=gone", None, 422, "status"),
    ("GET", "/api/admin/tasks?limit=0", None, 422, "limit"),
    ("POST", "/api/admin/proxies", {"protocol": "gopher", "host": "127.0.0.1", "port": 1}, 422, "protocol"),
    ("POST", "/api/admin/proxies", {"protocol": "http", "host": "127.0.0.1", "port": 0}, 422, "port"),
    ("GET", "/api/items?limit=x", None, 422, "limit"),
]


async def written(door: Door) -> tuple[Any, ...]:
    """Everything that a refused request could have left behind."""
    tasks = await door.rows("scheduler", "SELECT count(*) FROM crawl_tasks WHERE url LIKE '%known.example%'")
    domains = await door.rows(
        "scheduler", "SELECT name, updated_at FROM domains WHERE name LIKE '%.example' ORDER BY 1"
    )
    proxies = await door.rows("proxy_broker", "SELECT count(*) FROM proxies WHERE port IN (0, 1)")
    return tasks[0]["count"], [tuple(row) for row in domains], proxies[0]["count"]


def check(answer: httpx.Response, *, status: int, field: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) >= {"type", "title", "status", "detail", "errors"}
    assert problem["status"] == status
    assert field in [error["field"] for error in problem["errors"]], problem
    assert all(error["message"] for error in problem["errors"])


@pytest.mark.parametrize(("method", "path", "body", "status", "field"), BAD)
async def test_each_is_refused_by_name_and_nothing_is_written(
    door: Door, method: str, path: str, body: object, status: int, field: str
) -> None:
    await door.make_domain(KNOWN)
    before = await written(door)
    check(await door.client.request(method, path, json=body), status=status, field=field)
    assert await written(door) == before


@pytest.mark.parametrize("path", ["/api/admin/tasks", "/api/admin/domains", "/api/admin/proxies", "/api/items"])
@pytest.mark.parametrize("key", [None, "Bearer wrong", "Basic abc", "Bearer"])
async def test_a_missing_or_wrong_key_is_refused(door: Door, path: str, key: str | None) -> None:
    async with httpx.AsyncClient(base_url=door.platform.url, trust_env=False) as client:
        answer = await client.get(path, headers={"Authorization": key} if key else {})
    check(answer, status=401, field="Authorization")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_an_oversized_body_is_refused_declared_or_not(door: Door) -> None:
    await door.make_domain(KNOWN)
    before = await written(door)
    large = json.dumps({"tasks": [{"url": "http://known.example/" + "x" * 8000}] * 4000}).encode()
    headers = {"Content-Type": "application/json"}
    check(await door.client.post("/api/admin/tasks/bulk", content=large, headers=headers), status=413, field="body")

    async def in_pieces() -> Any:
        for start in range(0, len(large), 1 << 20):
            yield large[start : start + (1 << 20)]

    check(
        await door.client.post("/api/admin/tasks/bulk", content=in_pieces(), headers=headers), status=413, field="body"
    )
    assert await written(door) == before


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff\xfe", b'{"url": "http://known.example/"'])
async def test_a_body_that_is_not_the_json_it_should_be_is_refused(door: Door, body: bytes) -> None:
    answer = await door.client.post("/api/admin/tasks", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"]


async def test_in_a_list_the_good_urls_are_taken_and_the_bad_ones_named(door: Door) -> None:
    await door.make_domain("list.example", crawl_delay_seconds=3600)
    await door.send("PATCH", "/api/admin/domains/list.example", body={"is_active": False})
    urls = ["http://list.example/1", "nonsense", "http://unknown.example/", "http://list.example/1#again"]
    answer = await door.send("POST", "/api/admin/tasks/bulk", body={"tasks": [{"url": url} for url in urls]})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["created"], [refusal["field"] for refusal in told["refused"]]) == (1, ["tasks.1.url", "tasks.2.url"])
    assert "create it with POST /api/admin/domains" in told["refused"][1]["message"]
