"""One GET against real servers, good and bad: each ends in a page or in a failure with a name."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import time
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any

import brotli
import pytest
import zstandard

from limpet.contracts.events.v1.fetch_pb2 import FailureKind
from limpet.fetcher.page import Page
from limpet.fetcher.redirect import follow
from limpet.fetcher.validate import Failure
from limpet.fetcher.via import Via
from limpet.fetcher.web import Web, open_web
from limpet.kit.guard import Guard, networks_of
from tests.support.forward_proxy import ForwardProxy, forward_proxy
from tests.support.rough_site import RoughSite, reply, rough_site
from tests.support.servers import free_port
from tests.support.waiting import until

MOST = 100_000
NETWORK, TIMEOUT = FailureKind.FAILURE_KIND_NETWORK, FailureKind.FAILURE_KIND_TIMEOUT
FORBIDDEN, PROXY = FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS, FailureKind.FAILURE_KIND_PROXY
TOO_LARGE = FailureKind.FAILURE_KIND_TOO_LARGE


@pytest.fixture
async def site() -> AsyncIterator[RoughSite]:
    async with rough_site() as site:
        yield site


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    """Loopback is allowed here, as it is for a site of the operator's own."""
    async with open_web(guard=Guard(networks=networks_of("127.0.0.0/8")), max_body_bytes=MOST) as web:
        yield web


@pytest.fixture
async def strict() -> AsyncIterator[Web]:
    async with open_web(guard=Guard(), max_body_bytes=MOST) as web:
        yield web


@pytest.fixture
async def proxy() -> AsyncIterator[ForwardProxy]:
    async with forward_proxy(credentials="ann:s3cret") as proxy:
        yield proxy
        # The tests take the proxy before the client and the site, so those are gone: it closes what it opened.
        await until(_proxy_is_quiet)


async def _proxy_is_quiet() -> bool:
    return not any("_pump" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def get(web: Web, url: str, *, seconds: float = 5.0, via: Via | None = None) -> Page | Failure:
    return await web.get(url, user_agent="limpet-test", seconds=seconds, via=via)


async def page(web: Web, url: str, **options: Any) -> Page:
    answer = await get(web, url, **options)
    assert isinstance(answer, Page), answer
    return answer


async def failure(web: Web, url: str, **options: Any) -> Failure:
    answer = await get(web, url, **options)
    assert isinstance(answer, Failure), answer
    return answer


async def test_a_page_comes_with_its_type_charset_and_body(web: Web, site: RoughSite) -> None:
    site.answers["/p"] = reply("Käse".encode("latin-1"), content_type='Text/HTML; Charset="ISO-8859-1"')
    answer = await page(web, site.url("/p?b=2&a=%41"))
    assert answer == Page(200, "Käse".encode("latin-1"), "text/html", "iso-8859-1", "", "")
    (asked,) = site.asked
    assert asked.target == "/p?b=2&a=%41"
    assert (asked.headers["user-agent"], asked.headers["host"]) == ("limpet-test", site.domain)
    assert "cookie" not in asked.headers


async def test_an_empty_answer_is_a_page_without_a_body(web: Web, site: RoughSite) -> None:
    site.answers["/empty"] = reply(b"")
    assert (await page(web, site.url("/empty"))).body == b""
    site.answers["/none"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert (await page(web, site.url("/none"))).status == 204


async def test_any_status_is_an_answer_and_retry_after_comes_along(web: Web, site: RoughSite) -> None:
    for status in (400, 404, 429, 500, 503):
        site.answers["/s"] = reply(b"no", f"{status} X", retry_after="30")
        answer = await page(web, site.url("/s"))
        assert (answer.status, answer.retry_after) == (status, "30")


async def test_a_redirect_is_told_and_not_followed(web: Web, site: RoughSite) -> None:
    site.answers["/old"] = reply(b"", "302 Found", location="/new")
    answer = await page(web, site.url("/old"))
    assert (answer.status, answer.location) == (302, "/new")
    assert site.targets() == ["/old"]


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("coding", PACKERS)
async def test_f3_a_packed_body_arrives_unpacked(web: Web, site: RoughSite, coding: str) -> None:
    body = b"boots " * 1000
    packed = PACKERS[coding](body)
    site.answers["/z"] = reply(packed, content_encoding=coding)
    assert (await page(web, site.url("/z"))).body == body
    assert coding in site.asked[0].headers["accept-encoding"]


async def test_only_codings_that_can_be_unpacked_are_asked_for(web: Web, site: RoughSite) -> None:
    """A site that sends another one all the same gives a failure with a name, never packed bytes as a page."""
    for coding, packed in (("zstd", zstandard.ZstdCompressor().compress(b"boots")), ("br", b"\x0b\x02\x80boots\x03")):
        site.answers["/z"] = reply(packed, content_encoding=coding)
        answer = await get(web, site.url("/z"))
        asked = site.asked[-1].headers["accept-encoding"]
        if coding in asked:
            assert isinstance(answer, Page)
            assert answer.body == b"boots"
        else:
            assert isinstance(answer, Failure)
            assert answer.kind == NETWORK


async def test_a_body_that_is_not_what_its_coding_says_is_a_failure(web: Web, site: RoughSite) -> None:
    site.answers["/z"] = reply(b"no gzip at all", content_encoding="gzip")
    assert (await failure(web, site.url("/z"))).kind == NETWORK


async def test_a_body_over_the_cap_is_not_read_to_its_end(web: Web, site: RoughSite) -> None:
    sent = [0]

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()
            sent[0] += 65536

    site.answers["/endless"] = endless
    answer = await failure(web, site.url("/endless"))
    assert (answer.kind, answer.error) == (TOO_LARGE, f"more than {MOST} bytes")
    assert sent[0] < 64 << 20
    site.answers["/exact"] = reply(b"x" * MOST)
    assert len((await page(web, site.url("/exact"))).body) == MOST
    site.answers["/over"] = reply(b"x" * (MOST + 1))
    assert (await failure(web, site.url("/over"))).kind == TOO_LARGE


async def test_a_declared_size_over_the_cap_is_believed_at_once(web: Web, site: RoughSite) -> None:
    site.answers["/claims"] = reply(b"x" * 10, content_length=str(MOST + 1))
    begun = time.monotonic()
    assert (await failure(web, site.url("/claims"), seconds=30)).kind == TOO_LARGE
    assert time.monotonic() - begun < 5


async def test_a_gzip_bomb_is_stopped_at_the_cap(web: Web, site: RoughSite) -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    assert len(bomb) < MOST
    site.answers["/bomb"] = reply(bomb, content_encoding="gzip")
    assert (await failure(web, site.url("/bomb"), seconds=20)).kind == TOO_LARGE


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def drip_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X: y\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def say_nothing(writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    await asyncio.Event().wait()


@pytest.mark.parametrize("slow", [drip, drip_headers, say_nothing])
async def test_a_slow_answer_ends_at_the_total_deadline(web: Web, site: RoughSite, slow: Any) -> None:
    site.answers["/slow"] = slow
    begun = time.monotonic()
    answer = await failure(web, site.url("/slow"), seconds=0.4)
    took = time.monotonic() - begun
    assert (answer.kind, answer.error) == (TIMEOUT, "no complete answer within 0.4 s")
    assert 0.39 <= took < 2.0


async def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize(
    "answer",
    [
        reply(b"half", content_length="100") + b"",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\xff\x00\xff\r\n\r\n",
        b"",
    ],
    ids=range(11),
)
async def test_a_broken_answer_is_a_network_failure(web: Web, site: RoughSite, answer: bytes) -> None:
    async def rough(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    site.answers["/x"] = rough
    found = await failure(web, site.url("/x"))
    assert found.kind == NETWORK
    assert len(found.error) <= 500
    assert site.targets() == ["/x"]


@pytest.mark.parametrize("rough", [reset, hang_up])
async def test_a_lost_connection_is_a_network_failure_and_is_not_tried_again(
    web: Web, site: RoughSite, rough: Any
) -> None:
    site.answers["/x"] = rough
    assert (await failure(web, site.url("/x"))).kind == NETWORK
    assert site.targets() == ["/x"]


async def test_a_kept_connection_that_breaks_costs_the_attempt_and_no_second_request(web: Web, site: RoughSite) -> None:
    """One attempt is one request: a silent repeat would break the domain's pace."""
    site.answers["/good"] = reply(b"ok")
    await page(web, site.url("/good"))
    site.answers["/bad"] = reset
    assert (await failure(web, site.url("/bad"))).kind == NETWORK
    assert site.targets() == ["/good", "/bad"]


async def test_nobody_there_is_a_network_failure(web: Web) -> None:
    assert (await failure(web, f"http://127.0.0.1:{free_port()}/")).kind == NETWORK
    assert (await failure(web, "http://no-such-host.invalid/")).kind == NETWORK


async def test_a_name_that_resolves_to_loopback_is_refused_when_it_is_connected_to(
    strict: Web, site: RoughSite
) -> None:
    answer = await failure(strict, f"http://localhost:{site.port}/")
    assert answer.kind == FORBIDDEN
    assert "LIMPET_ALLOWED_NETWORKS" in answer.error
    assert site.asked == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "0.0.0.0", "0", "[::1]",
     "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "user@127.0.0.1", "127。0。0。1"],
)  # fmt: skip
async def test_no_spelling_of_loopback_reaches_it(strict: Web, site: RoughSite, host: str) -> None:
    assert (await failure(strict, f"http://{host}:{site.port}/")).kind == FORBIDDEN
    assert site.asked == []


async def test_a_private_address_is_not_reached_through_a_proxy_either(
    proxy: ForwardProxy, strict: Web, site: RoughSite
) -> None:
    via = Via("http", "127.0.0.1", proxy.port, "ann", "s3cret")
    for host in ("127.0.0.1", "127.1", "0x7f.1", "[::1]"):
        assert (await failure(strict, f"http://{host}:{site.port}/", via=via)).kind == FORBIDDEN
    assert (proxy.seen, site.asked) == ([], [])


async def test_a_redirect_to_a_private_address_leads_nowhere(web: Web, site: RoughSite) -> None:
    site.answers["/old"] = reply(b"", "302 Found", location="http://169.254.169.254/latest/meta-data/")
    answer = await page(web, site.url("/old"))
    found = follow(site.url("/old"), domain=site.domain, status=answer.status, location=answer.location)
    assert isinstance(found, Failure)
    assert found.kind == FailureKind.FAILURE_KIND_REDIRECT


async def test_a_page_comes_through_a_proxy_with_credentials(proxy: ForwardProxy, web: Web, site: RoughSite) -> None:
    site.answers["/p"] = reply(b"boots")
    via = Via("http", "127.0.0.1", proxy.port, "ann", "s3cret")
    assert (await page(web, site.url("/p?x=1"), via=via)).body == b"boots"
    assert proxy.seen == [site.url("/p?x=1")]
    assert "proxy-authorization" not in site.asked[0].headers


async def test_wrong_credentials_blame_the_proxy(proxy: ForwardProxy, web: Web, site: RoughSite) -> None:
    for via in (Via("http", "127.0.0.1", proxy.port), Via("http", "127.0.0.1", proxy.port, "ann", "wrong")):
        answer = await failure(web, site.url("/p"), via=via)
        assert (answer.kind, answer.error) == (PROXY, "the proxy did not take its credentials")
    assert (len(proxy.refused), site.asked) == (2, [])


async def test_a_proxy_that_is_away_is_blamed_and_its_address_not_told(web: Web, site: RoughSite) -> None:
    port = free_port()
    answer = await failure(web, site.url("/p"), via=Via("http", "127.0.0.1", port, "ann", "s3cret"))
    assert answer.kind == PROXY
    assert str(port) not in answer.error
    assert "s3cret" not in answer.error
    assert site.asked == []


async def test_a_proxy_whose_name_nobody_knows_is_blamed(web: Web, site: RoughSite) -> None:
    answer = await failure(web, site.url("/p"), via=Via("http", "no-such-proxy.invalid", 3128))
    assert (answer.kind, answer.error) == (PROXY, "the proxy's name is not known")
    assert site.asked == []


async def test_the_bytes_of_a_page_are_those_that_came_over_the_wire(web: Web, site: RoughSite) -> None:
    packed = gzip.compress(b"boots " * 1000)
    site.answers["/z"] = reply(packed, content_encoding="gzip")
    assert (await page(web, site.url("/z"))).received_bytes == len(packed)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nboots\r\n0\r\n\r\n"
    site.answers["/c"] = chunked
    assert (await page(web, site.url("/c"))).received_bytes == len(b"boots")


async def test_a_proxy_that_refuses_the_tunnel_is_blamed_and_was_given_its_credentials(
    web: Web, site: RoughSite
) -> None:
    """The site stands in for a proxy that lets nobody through."""
    site.answers["shop.test:443"] = reply(b"", "403 Forbidden")
    answer = await failure(web, "https://shop.test/", via=Via("http", "127.0.0.1", site.port, "ann", "s3cret"))
    assert (answer.kind, answer.error) == (PROXY, "the proxy refused the connection with status 403")
    assert site.asked[0].headers["proxy-authorization"] == f"Basic {b64encode(b'ann:s3cret').decode()}"


async def test_credentials_go_along_on_a_kept_connection_too(web: Web, site: RoughSite) -> None:
    """The site stands in for a proxy that keeps its connections: it is asked for whole addresses."""
    via = Via("http", "127.0.0.1", site.port, "ann", "s3cret")
    site.answers["http://shop.test/p"] = reply(b"boots")
    for _ in range(3):
        assert (await page(web, "http://shop.test/p", via=via)).body == b"boots"
    assert len({asked.headers.get("proxy-authorization") for asked in site.asked}) == 1
    assert "proxy-authorization" in site.asked[0].headers


async def test_a_proxy_of_another_protocol_is_named(web: Web, site: RoughSite) -> None:
    answer = await failure(web, site.url("/p"), via=Via("socks4", "127.0.0.1", 1080))
    assert answer.kind == PROXY
    assert "socks4" in answer.error
    assert site.asked == []


def test_a_proxys_password_is_not_shown() -> None:
    assert "s3cret" not in repr(Via("http", "h", 1, "ann", "s3cret"))
