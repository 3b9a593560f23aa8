"""A REST edge on a real port: every error is problem+json and says what to change."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field
from structlog.testing import capture_logs

from limpet.cli.local.postgres import SUPERUSER, Postgres
from limpet.kit.errors import Retryable
from limpet.kit.keys import Keys
from limpet.kit.pg import open_pool
from limpet.kit.rest import field_problem, make_app, require, serve_rest
from tests.support.listening import listening, silent
from tests.support.parts import running
from tests.support.relay import Relay
from tests.support.servers import free_port

CAP = 10_000
GOOD = {"name": "a", "size": 3, "parts": [{"weight": 1.5}]}


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    weight: float = Field(gt=0)


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    size: int
    parts: list[Part] = []


def make_test_app() -> FastAPI:
    keys = Keys(tuple((role, hashlib.sha256(role.encode()).hexdigest()) for role in ("read", "operate", "admin")))
    app = make_app("test", keys, max_body=CAP)

    @app.get("/things", dependencies=[require("read")])
    async def _(limit: Annotated[int, Query(le=10)] = 1) -> dict[str, int]:
        return {"limit": limit}

    @app.post("/things", dependencies=[require("operate")])
    async def _(thing: Thing) -> Thing:
        if thing.name == "taken":
            raise field_problem("name", "is taken", status=409)
        return thing

    @app.get("/later")
    async def _() -> None:
        raise Retryable("the bus is away")

    @app.get("/bug")
    async def _() -> None:
        raise ZeroDivisionError("secret detail")

    return app


@pytest.fixture
async def api() -> AsyncIterator[httpx.AsyncClient]:
    port = free_port()
    async with running(serve_rest(make_test_app(), host="127.0.0.1", port=port)):
        await listening(port)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=key("admin")) as client:
            yield client


def key(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The body, after a look at what every problem has."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["type"] == "about:blank"
    assert body["title"]
    return body


def fields(body: dict[str, Any]) -> list[str]:
    return [error["field"] for error in body["errors"]]


async def test_a_good_request_is_answered(api: httpx.AsyncClient) -> None:
    answer = await api.post("/things", json=GOOD)
    assert (answer.status_code, answer.json()) == (200, GOOD)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"name": "a"}, ["size"]),
        ({}, ["name", "size"]),
        ({**GOOD, "size": "many"}, ["size"]),
        ({**GOOD, "size": 1.5}, ["size"]),
        ({**GOOD, "size": None}, ["size"]),
        ({**GOOD, "name": ""}, ["name"]),
        ({**GOOD, "colour": "red"}, ["colour"]),
        ({**GOOD, "parts": [{"weight": 1}, {"weight": -1}]}, ["parts.1.weight"]),
        ({**GOOD, "parts": "none"}, ["parts"]),
        ([], ["body"]),
        (None, ["body"]),
    ],
)
async def test_a_bad_body_is_refused_and_the_field_is_named(
    api: httpx.AsyncClient, body: object, named: list[str]
) -> None:
    found = problem(await api.post("/things", json=body), 422)
    assert fields(found) == named
    assert all(name in found["detail"] for name in named)


@pytest.mark.parametrize("text", [b"{", b'{"name": "a",}', b"\xff\xfe", b""])
async def test_a_body_that_is_no_json_is_refused_as_a_whole(api: httpx.AsyncClient, text: bytes) -> None:
    answer = await api.post("/things", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert fields(problem(answer, answer.status_code)) == ["body"]


async def test_a_bad_query_names_its_parameter(api: httpx.AsyncClient) -> None:
    for value in ("11", "x", ""):
        assert fields(problem(await api.get("/things", params={"limit": value}), 422)) == ["limit"]


async def test_a_problem_of_the_use_case_names_its_field(api: httpx.AsyncClient) -> None:
    assert fields(problem(await api.post("/things", json={**GOOD, "name": "taken"}), 409)) == ["name"]


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": "Basic x"}]
)
async def test_without_a_key_nobody_gets_in(api: httpx.AsyncClient, headers: dict[str, str]) -> None:
    request = api.build_request("GET", "/things")
    del request.headers["Authorization"]
    request.headers.update(headers)
    answer = await api.send(request)
    assert fields(problem(answer, 401)) == ["Authorization"]
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("text", ["nobody", "ADMIN", hashlib.sha256(b"admin").hexdigest(), "x" * 5000])
async def test_a_wrong_key_is_refused_and_not_repeated(api: httpx.AsyncClient, text: str) -> None:
    answer = await api.get("/things", headers=key(text))
    assert fields(problem(answer, 401)) == ["Authorization"]
    assert text not in answer.text


async def test_a_weaker_role_is_forbidden_what_a_stronger_one_may(api: httpx.AsyncClient) -> None:
    found = problem(await api.post("/things", json=GOOD, headers=key("read")), 403)
    assert fields(found) == ["Authorization"]
    assert "operate" in found["detail"]
    statuses = [(await api.post("/things", json=GOOD, headers=key(role))).status_code for role in ("operate", "admin")]
    assert statuses == [200, 200]
    assert (await api.get("/things", headers=key("read"))).status_code == 200


async def test_a_key_is_asked_for_before_the_body_is_judged(api: httpx.AsyncClient) -> None:
    problem(await api.post("/things", json={"bad": 1}, headers=key("nobody")), 401)


async def pieces(size: int) -> AsyncIterator[bytes]:
    """A body whose length nobody announces."""
    body = json.dumps({**GOOD, "name": "x" * size}).encode()
    for start in range(0, len(body), 1000):
        yield body[start : start + 1000]


async def test_a_body_over_the_cap_is_refused_when_it_says_so(api: httpx.AsyncClient) -> None:
    assert fields(problem(await api.post("/things", json={**GOOD, "name": "x" * CAP}), 413)) == ["body"]


async def test_a_body_over_the_cap_is_refused_when_it_does_not_say_so(api: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json"}
    found = problem(await api.post("/things", content=pieces(5 * CAP), headers=headers), 413)
    assert fields(found) == ["body"]
    assert str(CAP) in found["detail"]
    # Below the cap such a body is fine, also on the same client.
    answer = await api.post("/things", content=pieces(CAP // 2), headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("header", "body"),
    [("Content-Length: 1000000000", b""), ("Transfer-Encoding: chunked", b"4e20\r\n" + b"x" * 0x4E20 + b"\r\n")],
    ids=["declared", "counted"],
)
async def test_a_body_over_the_cap_is_refused_before_its_end(api: httpx.AsyncClient, header: str, body: bytes) -> None:
    """The answer comes although the rest of the body never does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.base_url.port)
    head = "POST /things HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer admin\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}{header}\r\n\r\n".encode() + body)
    try:
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_unknown_places_and_methods_are_problems_too(api: httpx.AsyncClient) -> None:
    problem(await api.get("/nowhere"), 404)
    answer = await api.delete("/things")
    problem(answer, 405)


async def test_what_can_succeed_later_is_503(api: httpx.AsyncClient) -> None:
    assert "bus is away" in problem(await api.get("/later"), 503)["detail"]


async def test_a_bug_is_500_and_tells_no_detail(api: httpx.AsyncClient) -> None:
    with capture_logs():
        answer = await api.get("/bug")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret detail" not in answer.text


@pytest.fixture
def relay(postgres: Postgres) -> Relay:
    return Relay(postgres.port)


async def test_a_database_that_is_away_is_503_and_works_again_when_it_is_back(postgres: Postgres, relay: Relay) -> None:
    await relay.open()
    dsn = f"postgresql://{SUPERUSER}:{quote(postgres.password)}@127.0.0.1:{relay.port}/postgres"
    port = free_port()
    async with open_pool(dsn, size=2) as pool:
        app = make_test_app()

        @app.get("/count")
        async def _() -> int:
            return int(await pool.fetchval("SELECT 7"))

        async with (
            running(serve_rest(app, host="127.0.0.1", port=port)),
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            await listening(port)
            assert (await client.get("/count")).json() == 7
            await relay.close()
            for path in ["/count"] * 3:
                found = problem(await client.get(path), 503)
                assert "database" in found["detail"]
                assert postgres.password not in str(found)
            await relay.open()
            assert (await client.get("/count")).json() == 7
    await relay.close()


async def test_a_request_under_way_is_answered_when_the_server_is_stopped() -> None:
    port, asked, release = free_port(), asyncio.Event(), asyncio.Event()
    app = make_test_app()

    @app.get("/slow")
    async def _() -> int:
        asked.set()
        await release.wait()
        return 1

    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        running(serve_rest(app, host="127.0.0.1", port=port)) as server,
    ):
        await listening(port)
        answer = asyncio.create_task(client.get("/slow"))
        await asyncio.wait_for(asked.wait(), 5)
        server.cancel()
        await silent(port)
        release.set()
        assert (await asyncio.wait_for(answer, 5)).status_code == 200
        await asyncio.wait([server], timeout=5)


@pytest.mark.parametrize(("path", "allowed"), [("/things", "GET, POST"), ("/later", "GET"), ("/openapi.json", "GET")])
async def test_a_method_that_is_not_there_is_told_which_are(api: httpx.AsyncClient, path: str, allowed: str) -> None:
    answer = await api.put(path)
    problem(answer, 405)
    assert answer.headers["allow"] == allowed


async def test_every_operation_declares_the_problems_that_it_can_answer(api: httpx.AsyncClient) -> None:
    document = (await api.get("/openapi.json")).json()
    declared = {
        (path, method): sorted(operation["responses"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert declared == {
        ("/things", "get"): ["200", "401", "403", "413", "422", "503"],
        ("/things", "post"): ["200", "400", "401", "403", "413", "422", "503"],
        ("/later", "get"): ["200", "413", "503"],
        ("/bug", "get"): ["200", "413", "503"],
    }
    refused = document["paths"]["/things"]["post"]["responses"]["422"]["content"]
    assert refused == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert {"Problem", "HTTPValidationError"} & set(document["components"]["schemas"]) == {"Problem"}
    assert document["paths"]["/things"]["get"]["security"] == [{"key": []}]
