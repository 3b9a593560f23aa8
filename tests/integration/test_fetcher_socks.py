"""One GET through real SOCKS5 proxies, good and bad."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, OrderKind
from limpet.contracts.proxy.v1.proxy_service_pb2 import Outcome
from limpet.fetcher.blame import outcome_of
from limpet.fetcher.page import Page
from limpet.fetcher.socks import SocksSessions
from limpet.fetcher.validate import Failure
from limpet.fetcher.via import Via
from limpet.fetcher.web import Web, open_web
from limpet.kit.guard import Guard, networks_of
from tests.support.real_proxy import Mood, RealProxy
from tests.support.rough_site import RoughSite, reply, rough_site
from tests.support.servers import free_port
from tests.support.socks_proxy import SocksProxy, socks_proxy

CREDENTIALS = "ann:s3cret"
NETWORK, PROXY = FailureKind.FAILURE_KIND_NETWORK, FailureKind.FAILURE_KIND_PROXY
FORBIDDEN, TIMEOUT = FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS, FailureKind.FAILURE_KIND_TIMEOUT


@pytest.fixture
async def site() -> AsyncIterator[RoughSite]:
    async with rough_site() as site:
        site.answers["/p"] = reply(b"boots")
        yield site


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with open_web(guard=Guard(networks=networks_of("127.0.0.0/8")), max_body_bytes=100_000) as web:
        yield web


@pytest.fixture
async def strict() -> AsyncIterator[Web]:
    async with open_web(guard=Guard(), max_body_bytes=100_000) as web:
        yield web


@pytest.fixture
async def proxy() -> AsyncIterator[SocksProxy]:
    async with socks_proxy(credentials=CREDENTIALS) as proxy:
        yield proxy


def through(proxy: RealProxy, *, password: str = "") -> Via:
    return Via("socks5", "127.0.0.1", proxy.port, proxy.user, password or proxy.password)


async def get(web: Web, url: str, via: Via, *, seconds: float = 5.0) -> Page | Failure:
    return await web.get(url, user_agent="limpet-test", seconds=seconds, via=via)


async def failure(web: Web, url: str, via: Via, *, seconds: float = 5.0) -> Failure:
    answer = await get(web, url, via, seconds=seconds)
    assert isinstance(answer, Failure), answer
    assert str(via.port) not in answer.error
    assert "s3cret" not in answer.error
    return answer


def blame(failure: Failure) -> Outcome.ValueType:
    return outcome_of(failure, kind=OrderKind.ORDER_KIND_PAGE)


async def test_a_page_comes_through_with_credentials_and_the_site_sees_nothing_of_them(
    web: Web, site: RoughSite, proxy: SocksProxy
) -> None:
    answer = await get(web, site.url("/p?x=1"), through(proxy))
    assert isinstance(answer, Page)
    assert answer.body == b"boots"
    assert [(passed.target, passed.user) for passed in proxy.log] == [(site.domain, "ann")]
    assert site.targets() == ["/p?x=1"]
    assert "proxy-authorization" not in site.asked[0].headers


async def test_a_page_comes_through_a_proxy_that_anybody_may_use(web: Web, site: RoughSite) -> None:
    async with socks_proxy() as proxy:
        assert isinstance(await get(web, site.url("/p"), through(proxy)), Page)
        assert [(passed.target, passed.user) for passed in proxy.log] == [(site.domain, "")]


async def test_the_proxy_resolves_names(strict: Web, site: RoughSite, proxy: SocksProxy) -> None:
    """Only the proxy knows this one."""
    proxy.names["shop.test"] = "127.0.0.1"
    answer = await get(strict, f"http://shop.test:{site.port}/p", through(proxy))
    assert isinstance(answer, Page), answer
    assert proxy.seen == [f"shop.test:{site.port}"]
    assert site.asked[0].headers["host"] == f"shop.test:{site.port}"


async def test_connections_are_kept_per_origin_and_proxy(web: Web, site: RoughSite, proxy: SocksProxy) -> None:
    async with rough_site() as other, socks_proxy() as second:
        other.answers["/p"] = reply(b"hats")
        for _ in range(3):
            assert isinstance(await get(web, site.url("/p"), through(proxy)), Page)
            assert isinstance(await get(web, other.url("/p"), through(proxy)), Page)
            assert isinstance(await get(web, site.url("/p"), through(second)), Page)
        assert proxy.seen == [site.domain, other.domain]
        assert second.seen == [site.domain]


async def test_a_private_address_is_not_reached_through_a_proxy_either(
    strict: Web, site: RoughSite, proxy: SocksProxy
) -> None:
    for host in ("127.0.0.1", "127.1", "0x7f.1", "[::1]"):
        assert (await failure(strict, f"http://{host}:{site.port}/", through(proxy))).kind == FORBIDDEN
    assert (proxy.connections, site.asked) == (0, [])


async def test_wrong_credentials_blame_the_proxy(web: Web, site: RoughSite, proxy: SocksProxy) -> None:
    for via in (through(proxy, password="wrong"), Via("socks5", "127.0.0.1", proxy.port)):
        answer = await failure(web, site.url("/p"), via)
        assert (answer.kind, blame(answer)) == (PROXY, Outcome.OUTCOME_PROXY_FAILED)
    assert (proxy.refused, proxy.log, site.asked) == (["ann", ""], [], [])


@pytest.mark.parametrize("mood", [Mood.CLOSE, Mood.REFUSE, Mood.FORBID])
async def test_a_proxy_that_lets_nobody_through_is_blamed(
    web: Web, site: RoughSite, proxy: SocksProxy, mood: Mood
) -> None:
    proxy.mood = mood
    answer = await failure(web, site.url("/p"), through(proxy))
    assert (answer.kind, blame(answer)) == (PROXY, Outcome.OUTCOME_PROXY_FAILED)
    assert site.asked == []


async def test_a_proxy_that_says_nothing_is_a_timeout_and_is_blamed(
    web: Web, site: RoughSite, proxy: SocksProxy
) -> None:
    proxy.mood = Mood.HANG
    answer = await failure(web, site.url("/p"), through(proxy), seconds=0.3)
    assert (answer.kind, blame(answer)) == (TIMEOUT, Outcome.OUTCOME_PROXY_FAILED)


async def test_a_proxy_that_is_away_is_blamed(web: Web, site: RoughSite) -> None:
    for host in ("127.0.0.1", "no-such-proxy.invalid"):
        answer = await failure(web, site.url("/p"), Via("socks5", host, free_port(), "ann", "s3cret"))
        assert (answer.kind, answer.error) == (PROXY, "the proxy refused the connection")
    assert site.asked == []


async def test_a_site_that_the_proxy_cannot_reach_is_a_network_failure_of_the_site(web: Web, proxy: SocksProxy) -> None:
    for host in (f"127.0.0.1:{free_port()}", "no-such-host.invalid"):
        answer = await failure(web, f"http://{host}/", through(proxy))
        assert (answer.kind, blame(answer)) == (NETWORK, Outcome.OUTCOME_SITE_FAILED)
    assert len(proxy.log) == 2


async def test_a_site_that_speaks_no_tls_is_a_network_failure(web: Web, proxy: SocksProxy) -> None:
    async def plainly(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(plainly, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert (await failure(web, f"https://{host}/p", through(proxy))).kind == NETWORK
        assert proxy.seen == [host]


async def test_no_more_sessions_are_kept_than_allowed_and_none_in_use_is_closed(site: RoughSite) -> None:
    sessions = SocksSessions(lambda connector: aiohttp.ClientSession(connector=connector), most=2)
    vias = [Via("socks5", "127.0.0.1", port) for port in range(1001, 1006)]
    async with sessions.session(vias[0]) as first:
        for via in vias[1:]:
            async with sessions.session(via):
                pass
        assert (len(sessions), first.closed) == (2, False)
        async with sessions.session(vias[0]) as again:
            assert again is first
    await sessions.aclose()
    assert first.closed
