"""What a domain wants of its requests, and pages that have not changed: orders in, facts and rows out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred, ErrorType
from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, OrderKind, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected
from limpet.kit.bus import Bus
from tests.conftest import PoolFactory
from tests.support.fetching import BOOTS, Place, fetching_place, tell_the_time
from tests.support.heard import listen
from tests.support.labelled import LABELLED
from tests.support.rough_site import reply

ETAG, DATE = '"boots-1"', "Sun, 06 Nov 1994 08:49:37 GMT"
NOT_MODIFIED = b"HTTP/1.1 304 Not Modified\r\nETag: " + ETAG.encode() + b"\r\n\r\n"
WALL = next(page.body for page in LABELLED if page.vendor == "cloudflare")


@pytest.fixture
async def place(bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path) -> AsyncIterator[Place]:
    pool = await pool_of("limpet.fetcher")
    async with fetching_place(bus, nats_url=nats_url, pool=pool, pages=tmp_path) as place:
        await tell_the_time(bus)
        yield place


async def test_f3_a_page_that_has_not_changed_is_said_so_and_keeps_its_body_for_longer(place: Place) -> None:
    place.site.answers["/p"] = reply(BOOTS, etag=ETAG, last_modified=DATE)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order(task=1))
        page = await place.heard.one(PageFetched, 1)
        assert (page.etag, page.last_modified) == (ETAG, DATE)
        place.site.answers["/p"] = NOT_MODIFIED
        await place.pool.execute("UPDATE packs SET last_used_at = last_used_at - interval '20 days'")
        again = place.order(task=2)
        again.known.etag, again.known.last_modified, again.known.body_key = page.etag, page.last_modified, page.body_key
        await place.send(again)
        fact = await place.heard.one(FetchReturned, 2)
    assert (fact.reason, fact.http_status) == (ReturnReason.RETURN_REASON_UNCHANGED, 304)
    assert fact.started_time.seconds
    first, second = place.site.asked
    assert "if-none-match" not in first.headers
    assert (second.headers["if-none-match"], second.headers["if-modified-since"]) == (ETAG, DATE)
    row = await place.pool.fetchrow(
        "SELECT verdict, http_status, size_bytes, body_key FROM http_responses WHERE task_id = 2"
    )
    assert row is not None
    assert tuple(row) == ("unchanged", 304, 0, page.body_key)
    assert await place.pool.fetchval("SELECT last_used_at > now() - interval '1 hour' FROM packs")


async def test_f3_a_page_that_is_not_kept_any_more_is_asked_for_anew(place: Place) -> None:
    place.site.answers["/p"] = NOT_MODIFIED
    fetcher = await place.make()
    async with fetcher.taking_orders():
        order = place.order(task=1)
        order.known.etag, order.known.body_key = ETAG, "gone.pack#0-10"
        await place.send(order)
        fact = await place.heard.one(FetchReturned, 1)
    assert fact.reason == ReturnReason.RETURN_REASON_PAGE_GONE
    assert await place.pool.fetchval("SELECT body_key FROM http_responses") == ""
    assert await place.pool.fetchval("SELECT count(*) FROM packs") == 0


async def test_f3_a_page_that_has_changed_is_fetched_as_ever_and_304_without_a_question_is_none(place: Place) -> None:
    place.site.answers["/q"] = NOT_MODIFIED
    fetcher = await place.make()
    async with fetcher.taking_orders():
        order = place.order(task=1)
        order.known.etag, order.known.body_key = '"boots-0"', "gone.pack#0-10"
        await place.send(order, place.order("/q", task=2))
        await place.heard.one(PageFetched, 1)
        failed = await place.heard.one(FetchFailed, 2)
    assert failed.kind == FailureKind.FAILURE_KIND_REDIRECT


@pytest.mark.parametrize(
    "headers",
    [
        {"etag": "no quotes", "last_modified": "yesterday"},
        {"etag": '"a" "b"', "last_modified": "x" * 5000},
        {"etag": '"' + "a" * 2000 + '"', "last_modified": "Sun, 99 Nov 1994 08:49:37 GMT"},
    ],
)
async def test_f3_what_is_no_validator_is_not_sent_back(place: Place, headers: dict[str, str]) -> None:
    place.site.answers["/p"] = reply(BOOTS, **headers)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order(task=1))
        page = await place.heard.one(PageFetched, 1)
    assert (page.etag, page.last_modified) == ("", "")


async def test_f3_headers_of_the_domain_are_sent_to_it_and_to_no_other(place: Place) -> None:
    place.site.answers["/robots.txt"] = reply(b"User-agent: *\nAllow: /\n", content_type="text/plain")
    fetcher = await place.make()
    async with fetcher.taking_orders():
        own, elsewhere = place.order(task=1), place.order("/robots.txt", task=2)
        elsewhere.domain, elsewhere.kind = "shop.test", OrderKind.ORDER_KIND_ROBOTS
        for order in (own, elsewhere):
            order.headers["Accept-Language"], order.headers["Accept"] = "de", "text/html"
            await place.send(order)
            await place.heard.one(PageFetched, order.task_id)
    own_headers, other_headers = (asked.headers for asked in place.site.asked)
    assert (own_headers["accept-language"], own_headers["accept"]) == ("de", "text/html")
    assert "accept-language" not in other_headers
    assert own_headers["user-agent"] == "limpet-test"


async def test_f3_a_robots_file_may_have_moved_to_another_host_and_a_page_may_not(place: Place) -> None:
    there = "https://www.shop.test/robots.txt"
    place.site.answers["/robots.txt"] = place.site.answers["/p"] = reply(b"", "301 Moved", location=there)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        robots = place.order("/robots.txt", task=1)
        robots.kind = OrderKind.ORDER_KIND_ROBOTS
        await place.send(robots, place.order(task=2))
        moved = await place.heard.one(FetchReturned, 1)
        failed = await place.heard.one(FetchFailed, 2)
    assert (moved.reason, moved.location) == (ReturnReason.RETURN_REASON_REDIRECTED, there)
    assert failed.kind == FailureKind.FAILURE_KIND_REDIRECT


async def test_f4_in_shadow_mode_the_verdict_is_kept_and_not_acted_upon(place: Place) -> None:
    place.site.answers["/wall"] = reply(WALL, etag=ETAG)
    place.site.answers["/no"] = reply(WALL, "403 Forbidden")
    fetcher = await place.make()
    async with fetcher.taking_orders():
        orders = [place.order("/wall", task=1), place.order("/wall", task=2), place.order("/no", task=3)]
        orders[1].shadow = orders[2].shadow = True
        await place.send(*orders)
        enforced = await place.heard.one(PageRejected, 1)
        taken = await place.heard.one(PageFetched, 2)
        # What a site says outright is no matter of judgement.
        refused = await place.heard.one(PageRejected, 3)
    assert await place.blobs.get(taken.body_key) == WALL
    # It may be a wall after all: nobody shall go on with it because it has not changed.
    assert taken.etag == ""
    assert refused.http_status == 403
    rows = await place.pool.fetch(
        "SELECT verdict, shadow, reason, vendor, body_key <> '' FROM http_responses ORDER BY task_id"
    )
    assert [tuple(row) for row in rows[:2]] == [
        ("blocked", False, enforced.reason, "cloudflare", False),
        ("blocked", True, enforced.reason, "cloudflare", True),
    ]
    assert rows[2]["shadow"] is False


async def test_f11_what_goes_wrong_is_told_for_people_to_look_into(place: Place) -> None:
    answers = place.site.answers
    answers["/broken"], answers["/no"] = reply(b"oops", "500 Oops"), reply(b"no", "403 Forbidden")
    troubles = await listen(place.bus, errors=True)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        paths = ["/p", "/missing", "/broken", "/no"]
        await place.send(*(place.order(path, task=number) for number, path in enumerate(paths, start=1)))
        broken, refused = await troubles.one(ErrorOccurred, 3), await troubles.one(ErrorOccurred, 4)
        await place.all_taken()
    assert (broken.type, broken.worker_id, broken.service) == (ErrorType.ERROR_TYPE_NETWORK, "test", "fetcher")
    assert (refused.type, refused.message) == (ErrorType.ERROR_TYPE_BLOCKED, "status 403")
    assert refused.url == place.site.url("/no")
    assert refused.error_time.seconds
    # A page that is not there is an answer, and no trouble.
    assert len(troubles.of(ErrorOccurred)) == 2


async def test_f4_signatures_that_good_pages_of_a_domain_have_are_ignored_there(place: Place) -> None:
    place.site.answers["/wall"] = reply(WALL)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        order = place.order("/wall", task=1)
        order.ignored_signatures.extend(["cloudflare_challenge", "cloudflare_block", "cloudflare_words"])
        await place.send(order, place.order("/wall", task=2))
        told = await place.heard.one(PageRejected, 2)
        assert told.vendor == "cloudflare"

        async def judged() -> str:
            return str(await place.pool.fetchval("SELECT vendor FROM http_responses WHERE task_id = 1"))

        await place.all_taken()
        assert await judged() != "cloudflare"
