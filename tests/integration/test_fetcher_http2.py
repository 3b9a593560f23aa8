"""HTTP/2 on a real connection: the caps, deadlines, guards and proxies of every other request hold there too."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.page import Page
from limpet.fetcher.rate import Rate
from limpet.fetcher.validate import Failure
from limpet.fetcher.via import Via
from limpet.fetcher.web import Web, open_web
from limpet.kit.guard import Guard, networks_of
from tests.support.forward_proxy import forward_proxy
from tests.support.hostile import bomb, self_signed
from tests.support.http2_site import Answer, Http2Site, http2_site
from tests.support.servers import free_port
from tests.support.socks_proxy import socks_proxy

MOST = 100_000
BOOTS = b"<html><h1>Boots</h1><p>Waxed and stitched by hand.</p></html>"
QUICK = Rate(bytes_per_second=1000, grace_seconds=0.1, window_seconds=0.4)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Http2Site]:
    async with http2_site(tmp_path) as site:
        site.answers["/p"] = Answer(BOOTS, headers=(("content-type", "text/html"), ("set-cookie", "a=1")))
        yield site


@pytest.fixture
async def web(site: Http2Site) -> AsyncIterator[Web]:
    guard = Guard(networks=networks_of("127.0.0.0/8"))
    async with open_web(guard=guard, max_body_bytes=MOST, rate=QUICK, trust=site.trust) as web:
        yield web


async def get(web: Web, url: str, *, seconds: float = 5.0, via: Via | None = None, cut_at: int = 0) -> Page | Failure:
    return await web.get(
        url, user_agent="limpet-test", seconds=seconds, via=via, cut_at=cut_at, http2=True, headers={"X-Shop": "de"}
    )


def kind_of(answer: Page | Failure) -> FailureKind.ValueType:
    assert isinstance(answer, Failure), answer
    return answer.kind


async def good(web: Web, site: Http2Site, *, via: Via | None = None) -> None:
    answer = await get(web, site.url("/p"), via=via)
    assert isinstance(answer, Page), answer
    assert (answer.status, answer.body, answer.content_type) == (200, BOOTS, "text/html")


async def test_f3_a_page_comes_by_http2_with_its_headers_both_ways(web: Web, site: Http2Site) -> None:
    answer = await get(web, site.url("/p?b=%C3%A9&a=1"))
    assert isinstance(answer, Page)
    assert answer.status == 404
    await good(web, site)
    asked = site.asked[0]
    # The path is sent as it is written in the URL.
    assert asked.path == "/p?b=%C3%A9&a=1"
    assert asked.headers["user-agent"] == "limpet-test"
    assert asked.headers["x-shop"] == "de"
    assert "zstd" in asked.headers["accept-encoding"]
    answer = await get(web, site.url("/p"))
    assert isinstance(answer, Page)
    assert answer.cookies == ("a=1",)


async def test_f3_requests_of_one_origin_share_a_connection(web: Web, site: Http2Site) -> None:
    await good(web, site)
    await asyncio.gather(*(good(web, site) for _ in range(20)))
    assert (len(site.asked), site.connections) == (21, 1)


async def test_f3_a_site_without_http2_is_spoken_to_as_ever(tmp_path: Path) -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nboots")
        await writer.drain()
        writer.close()

    served = self_signed(tmp_path)
    server = await asyncio.start_server(old, "127.0.0.1", 0, ssl=served)
    trust = ssl.create_default_context(cafile=str(tmp_path / "hostile.pem"))
    port = server.sockets[0].getsockname()[1]
    guard = Guard(networks=networks_of("127.0.0.0/8"))
    async with open_web(guard=guard, max_body_bytes=MOST, trust=trust) as web:
        answer = await get(web, f"https://127.0.0.1:{port}/p")
        assert isinstance(answer, Page), answer
        assert answer.body == b"boots"
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
async def test_f3_a_bomb_stops_at_the_cap(web: Web, site: Http2Site, coding: str) -> None:
    packed = bomb(coding).partition(b"\r\n\r\n")[2]
    site.answers["/bomb"] = Answer(packed, headers=(("content-type", "text/html"), ("content-encoding", coding)))
    assert kind_of(await get(web, site.url("/bomb"))) == FailureKind.FAILURE_KIND_TOO_LARGE
    await good(web, site)


async def test_f3_a_packed_page_is_unpacked_and_a_broken_one_fails(web: Web, site: Http2Site) -> None:
    coded = (("content-type", "text/html"), ("content-encoding", "gzip"))
    site.answers["/packed"] = Answer(gzip.compress(BOOTS), headers=coded)
    site.answers["/broken"] = Answer(b"no gzip at all", headers=coded)
    answer = await get(web, site.url("/packed"))
    assert isinstance(answer, Page)
    assert answer.body == BOOTS
    assert kind_of(await get(web, site.url("/broken"))) == FailureKind.FAILURE_KIND_NETWORK


async def test_f3_a_body_over_the_cap_fails_and_one_that_may_be_cut_is_cut(web: Web, site: Http2Site) -> None:
    site.answers["/large"] = Answer(b"x" * (MOST * 10))
    assert kind_of(await get(web, site.url("/large"))) == FailureKind.FAILURE_KIND_TOO_LARGE
    answer = await get(web, site.url("/large"), cut_at=1000)
    assert isinstance(answer, Page)
    assert answer.body == b"x" * 1000
    # What was left unread fills no connection that others wait on.
    await good(web, site)


async def test_f3_a_drip_is_hung_up_on_and_the_deadline_holds(web: Web, site: Http2Site) -> None:
    site.answers["/stall"] = Answer(b"x" * 10, then=asyncio.Event().wait)  # type: ignore[arg-type]
    answer = await get(web, site.url("/stall"))
    assert kind_of(answer) == FailureKind.FAILURE_KIND_TIMEOUT
    assert isinstance(answer, Failure)
    assert "bytes a second" in answer.error
    answer = await get(web, site.url("/stall"), seconds=0.3)
    assert isinstance(answer, Failure)
    assert answer.error == "no complete answer within 0.3 s"
    await good(web, site)


async def test_f3_too_many_or_too_large_headers_fail(web: Web, site: Http2Site) -> None:
    site.answers["/many"] = Answer(BOOTS, headers=tuple((f"x-{number}", "y") for number in range(200)))
    site.answers["/long"] = Answer(BOOTS, headers=(("x-long", "y" * 9000),))
    site.answers["/huge"] = Answer(BOOTS, headers=tuple((f"x-{number}", "y" * 1000) for number in range(500)))
    for path in ("/many", "/long", "/huge"):
        assert kind_of(await get(web, site.url(path))) == FailureKind.FAILURE_KIND_NETWORK, path
        await good(web, site)


async def test_f3_after_a_thousand_requests_that_were_given_up_the_next_one_is_served(
    web: Web, site: Http2Site
) -> None:
    """The pool of httpx does not survive that: none is used again after a request that was given up."""
    site.answers["/never"] = Answer(b"", then=asyncio.Event().wait)  # type: ignore[arg-type]

    async def given_up() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                # Those that shared a connection with one that was given up may hear of it first.
                kind_of(await get(web, site.url("/never")))

    for _ in range(20):
        await asyncio.gather(*(given_up() for _ in range(50)))
    await asyncio.gather(*(good(web, site) for _ in range(12)))


async def test_f3_a_connection_that_the_site_has_closed_costs_no_page(web: Web, site: Http2Site) -> None:
    for _ in range(3):
        await good(web, site)
        for writer in site.writers:
            writer.close()
            await writer.wait_closed()
        site.writers.clear()
        # The news of it arrives with the next turns of the loop.
        for _ in range(10):
            await asyncio.sleep(0)
    assert site.connections == 3


async def test_x3_what_is_connected_to_is_checked(site: Http2Site) -> None:
    async with open_web(guard=Guard(), max_body_bytes=MOST, trust=site.trust) as web:
        for host in ("127.0.0.1", "localhost", "2130706433"):
            answer = await get(web, f"https://{host}:{site.port}/p")
            assert kind_of(answer) == FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS, host
    assert site.connections == 0


async def test_f3_a_certificate_that_nobody_trusts_is_refused(site: Http2Site) -> None:
    async with open_web(guard=Guard(networks=networks_of("127.0.0.0/8")), max_body_bytes=MOST) as web:
        answer = await get(web, site.url("/p"))
        assert kind_of(answer) == FailureKind.FAILURE_KIND_NETWORK
        assert isinstance(answer, Failure)
        assert "certificate" in answer.error.lower()


async def test_f3_http2_goes_through_http_and_socks_proxies_with_credentials(web: Web, site: Http2Site) -> None:
    async with forward_proxy(credentials="ann:s3cret") as http, socks_proxy(credentials="ann:s3cret") as socks:
        for proxy, protocol in ((http, "http"), (socks, "socks5")):
            await good(web, site, via=Via(protocol, "127.0.0.1", proxy.port, "ann", "s3cret"))
            answer = await get(web, site.url("/p"), via=Via(protocol, "127.0.0.1", proxy.port, "ann", "wrong"))
            assert kind_of(answer) == FailureKind.FAILURE_KIND_PROXY
            assert isinstance(answer, Failure)
            assert answer.unsent
            assert "127.0.0.1" not in answer.error
    assert "proxy-authorization" not in {name for asked in site.asked for name in asked.headers}


@pytest.mark.parametrize("protocol", ["http", "socks5"])
async def test_f3_a_proxy_that_is_not_there_took_nothing(web: Web, site: Http2Site, protocol: str) -> None:
    answer = await get(web, site.url("/p"), via=Via(protocol, "127.0.0.1", free_port()))
    assert kind_of(answer) == FailureKind.FAILURE_KIND_PROXY
    assert isinstance(answer, Failure)
    assert answer.unsent
