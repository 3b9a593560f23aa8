"""A hostile site: whatever it does ends within limits and with a name, memory stays bounded, and the fetcher goes on."""

from __future__ import annotations

import asyncio
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.fetcher.page import Page
from limpet.fetcher.rate import Rate
from limpet.fetcher.validate import Failure
from limpet.fetcher.web import open_web
from limpet.kit.bus import Bus
from limpet.kit.guard import Guard, networks_of
from tests.conftest import PoolFactory
from tests.support import hostile
from tests.support.fetching import Place, fetching_place, tell_the_time
from tests.support.rough_site import Rough, RoughSite, reply, rough_site

# Of a fetcher whose pages may have 100 kB: eight in hand, each with buffers of its own.
CAP_BYTES = 8 << 20
QUICK = Rate(bytes_per_second=1000, grace_seconds=0.1, window_seconds=0.4)
NETWORK, TIMEOUT = FailureKind.FAILURE_KIND_NETWORK, FailureKind.FAILURE_KIND_TIMEOUT
TOO_LARGE, REDIRECT = FailureKind.FAILURE_KIND_TOO_LARGE, FailureKind.FAILURE_KIND_REDIRECT
INJECTED = "/x%0d%0aSet-Cookie:%20a=b"

FAILS: dict[str, tuple[bytes | Rough, FailureKind.ValueType]] = {
    "/endless": (hostile.endless, TOO_LARGE),
    "/gzip-bomb": (hostile.bomb("gzip"), TOO_LARGE),
    "/br-bomb": (hostile.bomb("br"), TOO_LARGE),
    "/zstd-bomb": (hostile.bomb("zstd"), TOO_LARGE),
    "/drip": (hostile.drip, TIMEOUT),
    "/stall": (hostile.stall, TIMEOUT),
    "/headers": (hostile.ten_megabytes_of_headers, NETWORK),
    "/header": (hostile.one_header_of_ten_megabytes, NETWORK),
    "/trailers": (hostile.endless_trailers, NETWORK),
    "/private": (reply(b"", "302 Found", location="http://10.0.0.1/admin"), REDIRECT),
    "/metadata": (reply(b"", "302 Found", location="//169.254.169.254/latest/"), REDIRECT),
    "/chunk": (hostile.truncated_chunk, NETWORK),
    "/reset": (hostile.reset_in_mid_body, NETWORK),
    "/nul": (hostile.raw(b"HTTP/1.1 302 Found\r\nLocation: /a\x00b\r\nContent-Length: 0\r\n\r\n"), NETWORK),
    "/bare-cr": (hostile.raw(b"HTTP/1.1 302 Found\r\nLocation: /a\rX: y\r\nContent-Length: 0\r\n\r\n"), NETWORK),
}


@pytest.fixture
async def place(bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path) -> AsyncIterator[Place]:
    pool = await pool_of("limpet.fetcher")
    async with fetching_place(bus, nats_url=nats_url, pool=pool, pages=tmp_path) as place:
        await tell_the_time(bus)
        yield place


async def test_f3_each_attack_ends_in_a_named_failure_within_memory_and_the_fetcher_goes_on(place: Place) -> None:
    for path, (answer, _) in FAILS.items():
        place.site.answers[path] = answer
    fetcher = await place.make(rate=QUICK)
    async with fetcher.taking_orders():
        await place.send(place.order(task=1000))
        await place.heard.one(PageFetched, 1000)
        begun = time.monotonic()
        tracemalloc.start()
        try:
            await place.send(*(place.order(path, task=task) for task, path in enumerate(FAILS)))
            facts = [await place.heard.one(FetchFailed, task) for task in range(len(FAILS))]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        took = time.monotonic() - begun
        await place.send(place.order(task=1001))
        await place.heard.one(PageFetched, 1001)
        await place.all_taken()
    assert {path: fact.kind for path, fact in zip(FAILS, facts, strict=True)} == {
        path: kind for path, (_, kind) in FAILS.items()
    }
    assert all(fact.error and len(fact.error) <= 500 for fact in facts)
    assert peak < CAP_BYTES
    assert took < 20
    assert sorted(place.site.targets()) == sorted([*FAILS, "/p", "/p"])
    assert fetcher.slots.in_hand == 0


async def test_f3_what_is_only_odd_ends_in_its_own_fact(place: Place) -> None:
    answers = place.site.answers
    answers["/empty"] = reply(b"")
    answers["/charset"] = reply("<p>Käse</p>".encode("latin-1"), content_type="text/html; charset=utf-8")
    answers["/no-charset"] = reply(b"<p>cheese</p>", content_type="text/html; charset=\xff\x01utf-99")
    answers["/loop"] = reply(b"", "302 Found", location="/loop")
    answers["/injected"] = reply(b"", "302 Found", location=INJECTED)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        orders = [place.order(path, task=task) for task, path in enumerate(list(answers)[1:])]
        await place.send(*orders)
        empty = await place.heard.one(PageRejected, 0)
        pages = [await place.heard.one(PageFetched, task) for task in (1, 2)]
        moved = [await place.heard.one(FetchReturned, task) for task in (3, 4)]
        await place.all_taken()
    assert (empty.kind, empty.reason) == (RejectKind.REJECT_KIND_GARBAGE, "an answer without a page in it")
    assert [page.charset for page in pages] == ["utf-8", ""]
    assert await place.blobs.get(pages[0].body_key) == "<p>Käse</p>".encode("latin-1")
    # The next hop of a loop is an order of its own, and the scheduler counts them.
    assert {fact.reason for fact in moved} == {ReturnReason.RETURN_REASON_REDIRECTED}
    assert [fact.location for fact in moved] == [place.site.url("/loop"), place.site.url(INJECTED)]
    assert len(place.site.asked) == 5


async def test_f3_a_redirect_cannot_put_headers_into_the_next_request(place: Place) -> None:
    place.site.answers[INJECTED] = reply(b"<p>boots</p>")
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order(INJECTED, task=1))
        await place.heard.one(PageFetched, 1)
    (asked,) = place.site.asked
    assert asked.target == INJECTED
    assert "set-cookie" not in asked.headers


async def test_f3_a_certificate_that_nobody_trusts_is_a_network_failure(tmp_path: Path) -> None:
    site = RoughSite(answers={"/p": reply(b"<p>boots</p>")})
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=hostile.self_signed(tmp_path))
    site.port = server.sockets[0].getsockname()[1]
    async with open_web(guard=_loopback(), max_body_bytes=1000) as web:
        answer = await web.get(f"https://{site.domain}/p", user_agent="", seconds=5)
    server.close()
    await site.stop()
    await server.wait_closed()
    assert isinstance(answer, Failure)
    assert answer.kind == NETWORK
    assert "certificate verify failed" in answer.error
    assert site.asked == []


class Rebinding(AbstractResolver):
    """A name server of the attacker's: the first answer is harmless, each further one is not."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in found
        ]

    async def close(self) -> None:
        pass


async def test_x3_a_name_that_changes_to_a_private_address_after_the_check_is_not_followed_there() -> None:
    """127.0.0.2 stands for the public address, 127.0.0.1 for the private one; both are this machine's."""
    public = Guard(networks=networks_of("127.0.0.2/32"))
    resolver = Rebinding(["127.0.0.2"], ["127.0.0.1"])
    async with rough_site() as private:
        site = RoughSite(answers={"/p": reply(b"<p>boots</p>", connection="close")})
        server = await asyncio.start_server(site.serve, "127.0.0.2", private.port)
        async with open_web(guard=public, max_body_bytes=1000, resolver=resolver) as web:
            for _ in range(3):
                answer = await web.get(f"http://rebinding.test:{private.port}/p", user_agent="", seconds=5)
                assert isinstance(answer, Page)
            assert (len(site.asked), resolver.asked) == (3, 1)
            # Once the name is looked up again, what it has become is checked again.
            answer = await web.get(f"http://other.test:{private.port}/p", user_agent="", seconds=5)
            assert isinstance(answer, Failure)
            assert answer.kind == FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS
        server.close()
        await site.stop()
        await server.wait_closed()
        assert private.asked == []


async def test_x3_one_private_address_among_public_ones_forbids_the_name() -> None:
    resolver = Rebinding(["127.0.0.2", "127.0.0.1"])
    async with (
        rough_site() as private,
        open_web(guard=Guard(networks=networks_of("127.0.0.2/32")), max_body_bytes=1000, resolver=resolver) as web,
    ):
        answer = await web.get(f"http://both.test:{private.port}/p", user_agent="", seconds=5)
        assert isinstance(answer, Failure)
        assert answer.kind == FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS
        assert private.asked == []


async def test_f3_a_slow_body_that_keeps_the_rate_is_read_to_its_end() -> None:
    async def steady(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n")
        for _ in range(30):
            writer.write(b"x" * 300)
            await writer.drain()
            await asyncio.sleep(0.05)

    async with rough_site() as site, open_web(guard=_loopback(), max_body_bytes=10_000, rate=QUICK) as web:
        site.answers["/steady"] = steady
        answer = await web.get(site.url("/steady"), user_agent="", seconds=20)
    assert isinstance(answer, Page)
    assert len(answer.body) == 9000


@pytest.mark.parametrize("rough", [hostile.drip, hostile.stall])
async def test_f3_a_drip_is_given_up_long_before_the_deadline_and_says_why(rough: Rough) -> None:
    async with rough_site() as site, open_web(guard=_loopback(), max_body_bytes=100_000, rate=QUICK) as web:
        site.answers["/slow"] = rough
        begun = time.monotonic()
        answer = await web.get(site.url("/slow"), user_agent="", seconds=60)
        took = time.monotonic() - begun
    assert answer == Failure(TIMEOUT, "the body came with less than 1000 bytes a second")
    assert 0.4 < took < 10


def _loopback() -> Guard:
    return Guard(networks=networks_of("127.0.0.0/8"))
