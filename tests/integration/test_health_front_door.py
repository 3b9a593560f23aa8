"""The front door before real upstream servers: what goes in comes out, and trouble is told."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest
from aiohttp import web
from fastapi import FastAPI

from limpet.health.api import add_routes
from limpet.health.board import Board
from limpet.health.describe import add_description
from limpet.health.fleet import Fleet
from limpet.health.front_door import FrontDoor, open_session
from limpet.health.routes import Upstream
from limpet.kit.keys import Keys
from limpet.kit.rest import make_app, serve_rest
from tests.support.servers import free_port

MAX_BODY = 8 << 20
KEY = {"Authorization": "Bearer open-sesame"}
KEYS = Keys.parse(f"read:{hashlib.sha256(b'open-sesame').hexdigest()}")


class Shop:
    """An upstream that shows what it was asked, and can misbehave."""

    def __init__(self) -> None:
        self.hung_up = asyncio.Event()
        self.described = FastAPI(title="parser")

        @self.described.get("/api/items", summary="Items")
        async def items(limit: int) -> int:
            return limit

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_get("/api/items/endless", self._endless)
        app.router.add_get("/api/items/cut", self._cut)
        app.router.add_get("/api/items/gzip", self._gzip)
        app.router.add_get("/api/items/silent", self._silent)
        app.router.add_post("/api/items/sum", self._sum)
        app.router.add_route("*", "/{path:.*}", self._echo)
        return app

    async def _openapi(self, _request: web.Request) -> web.Response:
        return web.json_response(self.described.openapi())

    async def _echo(self, request: web.Request) -> web.Response:
        shown = {
            "method": request.method,
            "target": request.raw_path,
            "headers": [[name.lower(), value] for name, value in request.headers.items()],
            "body": (await request.text()),
        }
        response = web.json_response(shown, status=207)
        response.headers.extend([("X-Twice", "a"), ("X-Twice", "b"), ("Connection", "x-private"), ("X-Private", "1")])
        return response

    async def _sum(self, request: web.Request) -> web.Response:
        digest, size = hashlib.sha256(), 0
        async for chunk in request.content.iter_any():
            digest.update(chunk)
            size += len(chunk)
        return web.json_response({"size": size, "sha256": digest.hexdigest()})

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"tick\n")
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            self.hung_up.set()
            raise

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    async def _gzip(self, _request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"packed"), headers={"Content-Encoding": "gzip"})

    async def _silent(self, _request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError


@asynccontextmanager
async def upstream(shop: Shop) -> AsyncIterator[str]:
    runner = web.AppRunner(shop.app(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port := free_port())
    await site.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def door(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    """The parser and the scheduler are there; the proxy broker is away."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(upstream(shop))
        session = await stack.enter_async_context(open_session(silence_seconds=1.0))
        fleet = Fleet(limit=10, forget_after_seconds=10)
        board = Board(fleet, every_seconds=0.2)
        app = make_app("Limpet health", KEYS)
        addresses: dict[Upstream, str] = {
            "scheduler": address,
            "parser": address,
            "proxy-broker": f"http://127.0.0.1:{free_port()}",
        }
        add_routes(app, board)
        add_description(app, session=session, addresses=addresses)
        app.add_middleware(FrontDoor, session=session, addresses=addresses, max_body=MAX_BODY)
        port = free_port()
        parts = [asyncio.create_task(board.run()), asyncio.create_task(serve_rest(app, host="127.0.0.1", port=port))]
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10))
        async with asyncio.timeout(10):
            while True:
                try:
                    await client.get("/health")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.02)
        yield client
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_method_path_query_headers_and_body_arrive_as_they_were_sent(
    door: httpx.AsyncClient, method: str
) -> None:
    answer = await door.request(
        method,
        "/api/targets/a%2Fb%20c?q=1&q=%C3%A4",
        headers={**KEY, "X-Own": "1", "Connection": "x-secret", "X-Secret": "1", "TE": "trailers"},
        content=b'{"name": "x"}',
    )
    assert answer.status_code == 207
    shown = answer.json()
    headers = dict(shown["headers"])
    assert (shown["method"], shown["target"]) == (method, "/api/targets/a%2Fb%20c?q=1&q=%C3%A4")
    assert shown["body"] == '{"name": "x"}'
    assert headers["authorization"] == KEY["Authorization"]
    assert (headers["x-own"], headers["x-forwarded-for"]) == ("1", "127.0.0.1")
    assert "x-secret" not in headers
    assert "te" not in headers
    assert answer.headers.get_list("x-twice") == ["a", "b"]
    assert "x-private" not in answer.headers
    assert len(answer.headers.get_list("date")) == 1


async def test_a_head_request_has_headers_and_no_body(door: httpx.AsyncClient) -> None:
    answer = await door.head("/api/admin/domains")
    assert (answer.status_code, answer.content) == (207, b"")
    assert int(answer.headers["content-length"]) > 0


async def test_a_packed_answer_stays_packed(door: httpx.AsyncClient) -> None:
    answer = await door.get("/api/items/gzip")
    assert (answer.text, answer.headers["content-encoding"]) == ("packed", "gzip")


async def test_a_streamed_body_arrives_whole(door: httpx.AsyncClient) -> None:
    piece = b"0123456789abcdef" * 4096

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield piece

    answer = await door.post("/api/items/sum", content=pieces())
    assert answer.json() == {"size": len(piece) * 64, "sha256": hashlib.sha256(piece * 64).hexdigest()}


async def test_a_body_over_the_bound_is_refused_declared_or_not(door: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(2 * MAX_BODY // 65536):
            yield b"x" * 65536

    for content in (b"x" * (MAX_BODY + 1), pieces()):
        answer = await door.post("/api/items/sum", content=content)
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["errors"] == [{"field": "body", "message": "too large"}]


async def test_an_endless_answer_flows_at_once_and_ends_when_the_caller_leaves(
    door: httpx.AsyncClient, shop: Shop
) -> None:
    async with door.stream("GET", "/api/items/endless") as answer:
        async for chunk in answer.aiter_bytes():
            assert chunk.startswith(b"tick")
            break
    async with asyncio.timeout(5):
        await shop.hung_up.wait()


async def test_an_answer_that_breaks_off_is_not_passed_on_as_complete(door: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await door.get("/api/items/cut")


async def test_an_upstream_that_is_away_is_named(door: httpx.AsyncClient) -> None:
    answer = await door.post("/api/admin/proxies", content=b"{}")
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert "proxy-broker" in answer.json()["detail"]


async def test_an_upstream_that_says_nothing_is_a_timeout(door: httpx.AsyncClient) -> None:
    answer = await door.get("/api/items/silent")
    assert (answer.status_code, answer.json()["title"]) == (504, "Gateway timeout")


async def test_an_unknown_path_is_a_problem(door: httpx.AsyncClient) -> None:
    for path in ("/nowhere", "/api/items-old", "/api"):
        answer = await door.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


async def test_statistics_need_a_key_and_health_does_not(door: httpx.AsyncClient) -> None:
    assert (await door.get("/health")).json()["status"] == "down"
    assert (await door.get("/api/system/stats")).status_code == 401
    answer = await door.get("/api/system/stats", headers=KEY)
    assert set(answer.json()) >= {"tasks", "pages_per_second", "workers"}


async def test_one_description_holds_every_service_that_answers(door: httpx.AsyncClient) -> None:
    api = (await door.get("/openapi.json")).json()
    assert {"/health", "/api/system/stats", "/api/items"} <= set(api["paths"])
    assert api["paths"]["/api/items"]["get"]["tags"] == ["parser"]
    assert "proxy-broker" in api["info"]["description"]


async def test_the_docs_page_needs_no_outside_network(door: httpx.AsyncClient) -> None:
    page, script = (await door.get("/docs")), (await door.get("/docs.js"))
    assert (page.status_code, script.status_code) == (200, 200)
    assert "http://" not in page.text + script.text
    assert "https://" not in page.text + script.text
