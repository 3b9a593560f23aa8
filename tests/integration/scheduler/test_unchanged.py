"""Recrawls ask whether a page has changed: only where what is known of it would be taken again as it is."""

from __future__ import annotations

import httpx
import pytest

from limpet.contracts.events.v1.domain_pb2 import DomainChanged
from limpet.contracts.events.v1.fetch_pb2 import FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.clock import to_stamp
from limpet.kit.pg import Pool
from limpet.scheduler.store.permits import Permit
from tests.support.scheduler_api import fields
from tests.support.scheduling import come_due, grant, in_flight, make_domain, make_settle, status_of, submit_pages

DOMAINS = "/api/admin/domains"
ETAG, DATE, KEY = '"boots-1"', "Sun, 06 Nov 1994 08:49:37 GMT", "aa.pack#0-10"


def page(permit: Permit, *, etag: str = ETAG) -> PageFetched:
    return PageFetched(
        task_id=permit.task_id, attempt=permit.attempt, url=permit.url, body_key=KEY, http_status=200,
        parser=permit.parser, follow=permit.follow, batch=permit.batch, etag=etag, last_modified=DATE,
        started_time=to_stamp(permit.slot_at),
    )  # fmt: skip


def unchanged(permit: Permit, reason: ReturnReason.ValueType = ReturnReason.RETURN_REASON_UNCHANGED) -> FetchReturned:
    return FetchReturned(
        task_id=permit.task_id, attempt=permit.attempt, reason=reason, http_status=304, response_ms=7, proxy_id=3,
        started_time=to_stamp(permit.slot_at),
    )  # fmt: skip


async def granted(pool: Pool) -> Permit:
    (permit,) = await grant(pool)
    return permit


async def crawled(pool: Pool) -> Permit:
    """A task that has completed once, and is out for its next crawl."""
    await make_domain(pool)
    await submit_pages(pool, 1)
    permit = await granted(pool)
    assert permit.known is None
    await make_settle(pool).settle([page(permit), PageParsed(page=page(permit))])
    await come_due(pool, recrawls=True)
    return await granted(pool)


async def test_f3_a_recrawl_asks_with_what_the_site_gave_and_completes_without_a_parse(pool: Pool) -> None:
    permit = await crawled(pool)
    assert permit.known is not None
    assert (permit.known.etag, permit.known.last_modified, permit.known.body_key) == (ETAG, DATE, KEY)
    await make_settle(pool).settle([unchanged(permit), unchanged(permit)])
    row = await pool.fetchrow("SELECT * FROM crawl_tasks")
    assert row is not None
    assert (row["status"], row["http_status_code"], row["response_time_ms"], row["proxy_id"]) == (
        "completed",
        304,
        7,
        3,
    )
    assert row["next_crawl_at"] is not None, "recurrence goes on"
    assert PageFetched.FromString(row["page_fact"]).attempt == 1, "the page that it had before"
    assert await pool.fetchval("SELECT count(*) FROM parse_leases") == 0
    last = await pool.fetchrow("SELECT outcome, http_status, response_ms, proxy_id FROM attempts WHERE attempt = 2")
    assert last is not None
    assert tuple(last) == ("unchanged", 304, 7, 3)
    assert await in_flight(pool) == (0, 0)
    await come_due(pool, recrawls=True)
    assert (await granted(pool)).known is not None, "and is asked the same way the next time"


async def test_f3_a_page_that_is_gone_from_the_store_is_fetched_in_the_same_crawl(pool: Pool) -> None:
    permit = await crawled(pool)
    await make_settle(pool).settle([unchanged(permit, ReturnReason.RETURN_REASON_PAGE_GONE)])
    assert await status_of(pool, permit.task_id) == "pending"
    again = await granted(pool)
    assert (again.attempt, again.known) == (3, None)
    await make_settle(pool).settle([page(again), PageParsed(page=page(again))])
    assert await status_of(pool, permit.task_id) == "completed"


async def test_f3_a_fetch_that_failed_is_asked_the_same_way_again(pool: Pool) -> None:
    permit = await crawled(pool)
    await make_settle(pool).settle([unchanged(permit, ReturnReason.RETURN_REASON_LATE)])
    assert (await granted(pool)).known == permit.known


async def test_f3_a_page_that_was_never_parsed_is_fetched_again(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1, max_retries=0)
    permit = await granted(pool)
    await make_settle(pool).settle([page(permit), ParseFailed(page=page(permit), error="no recipe", retryable=False)])
    assert await status_of(pool, permit.task_id) == "failed"
    await come_due(pool, recrawls=True)
    assert (await granted(pool)).known is None


async def test_f3_a_person_who_restarts_a_task_gets_it_fetched(api: httpx.AsyncClient, pool: Pool) -> None:
    permit = await crawled(pool)
    await make_settle(pool).settle([unchanged(permit)])
    assert (await api.post(f"/api/admin/tasks/{permit.task_id}/restart", json={})).status_code < 300
    assert (await granted(pool)).known is None


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE domains SET parser_name = 'product'",
        "UPDATE crawl_tasks SET parser_name = 'article'",
        "WITH b AS (INSERT INTO batches (name, follow) VALUES ('autumn', true) RETURNING batch_id)"
        " UPDATE crawl_tasks SET batch_id = b.batch_id FROM b",
    ],
)
async def test_f3_whoever_wants_something_else_of_the_page_gets_it_fetched(pool: Pool, change: str) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    permit = await granted(pool)
    await make_settle(pool).settle([page(permit), PageParsed(page=page(permit))])
    await pool.execute(change)
    await come_due(pool, recrawls=True)
    assert (await granted(pool)).known is None


async def test_f3_headers_http2_and_shadow_mode_stand_in_every_order(api: httpx.AsyncClient, pool: Pool) -> None:
    settings = {
        "name": "shop.test", "http2": True, "headers": {"Accept-Language": "de-CH"}, "validation": "shadow",
        "ignored_signatures": ["recaptcha_widget"], "obey_robots": False, "crawl_delay_seconds": 0,
    }  # fmt: skip
    made = await api.post(DOMAINS, json=settings)
    assert made.status_code == 201, made.text
    assert {name: made.json()[name] for name in settings} == settings
    await submit_pages(pool, 1)
    permit = await granted(pool)
    assert (permit.http2, permit.headers, permit.shadow) == (True, '{"Accept-Language": "de-CH"}', True)
    assert list(permit.ignored_signatures) == ["recaptcha_widget"]
    told = DomainChanged.FromString(await pool.fetchval("SELECT event FROM domain_changes"))
    assert (told.http2, told.shadow) == (True, True)
    changed = await api.patch(f"{DOMAINS}/shop.test", json={"crawl_delay_seconds": 1})
    assert changed.json()["headers"] == settings["headers"]
    changed = await api.patch(f"{DOMAINS}/shop.test", json={"headers": {}, "http2": False, "validation": "enforce"})
    assert (changed.json()["headers"], changed.json()["http2"], changed.json()["validation"]) == ({}, False, "enforce")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "other.test"},
        {"cookie": "a=b"},
        {"Authorization": "Bearer x"},
        {"Proxy-Authorization": "x"},
        {"Connection": "close"},
        {"Transfer-Encoding": "chunked"},
        {"Content-Length": "5"},
        {"TE": "trailers"},
        {"If-None-Match": '"x"'},
        {"X-Forwarded-For": "10.0.0.1"},
        {"Accept-Encoding": "lzma"},
        {"User-Agent": "x"},
        {"X-Shop": "de\r\nX-Other: a"},
        {"X-Shop": "de\x00"},
        {"X-Shop": "d\u00e9"},
        {"X-Shop": ""},
        {"X-Shop": " de"},
        {"X-Shop": "x" * 1001},
        {"X Shop": "de"},
        {"X-Shop:": "de"},
        {"": "de"},
        {"X-Shop": "de", "x-shop": "fr"},
        {f"X-{number}": "y" for number in range(21)},
    ],
)
async def test_f3_headers_that_break_a_request_or_speak_for_others_are_refused_by_name(
    api: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    assert fields(await api.post(DOMAINS, json={"name": "shop.test", "headers": headers}), 422) == ["headers"]


async def test_f4_a_page_that_needs_a_browser_fails_and_says_so(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    permit = await granted(pool)
    kind, reason = RejectKind.REJECT_KIND_NEEDS_RENDER, "a page that needs a browser (score 80: nothing but scripts)"
    fact = PageRejected(
        task_id=permit.task_id, attempt=permit.attempt, kind=kind, reason=reason, http_status=200,
        started_time=to_stamp(permit.slot_at),
    )  # fmt: skip
    await make_settle(pool).settle([fact])
    row = await pool.fetchrow("SELECT status, note, error_message, fetch_errors, blocks FROM crawl_tasks")
    assert row is not None
    assert tuple(row) == ("failed", "needs_render", f"needs_render: {reason}", 0, 0)
    assert await pool.fetchval("SELECT outcome FROM attempts") == "needs_render"
