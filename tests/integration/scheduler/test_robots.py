"""robots.txt is obeyed: nothing else is fetched before it is read, and what it forbids ends with that reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, OrderKind, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.kit.pg import Pool
from limpet.scheduler.store.permits import Permit
from tests.support.scheduling import come_due, grant, make_domain, make_settle, status_of, submit_pages


async def asked(pool: Pool) -> Permit:
    """The order for the robots.txt of a domain with three pages, alone."""
    await make_domain(pool, obey_robots=True)
    await submit_pages(pool, 3)
    assert await grant(pool) == [], "no page goes out before robots.txt is known"
    (order,) = await grant(pool)
    assert (order.kind, order.url, order.priority) == ("robots", "http://shop.test/robots.txt", 0)
    assert await grant(pool) == [], "and none while it is under way"
    return order


def read(order: Permit) -> PageFetched:
    return PageFetched(
        task_id=order.task_id, attempt=order.attempt, body_key="r", http_status=200, kind=OrderKind.ORDER_KIND_ROBOTS
    )


async def tell(pool: Pool, order: Permit, text: str) -> None:
    await make_settle(pool, bodies={"r": text.encode()}).settle([read(order)])


async def domain(pool: Pool) -> Any:
    return await pool.fetchrow("SELECT * FROM domains")


async def test_s2_what_robots_txt_forbids_is_cancelled_with_the_reason_and_the_rest_goes_out(pool: Pool) -> None:
    order = await asked(pool)
    await tell(pool, order, "User-agent: *\nDisallow: /p/1\nCrawl-delay: 2\nSitemap: http://shop.test/map.xml")
    assert await status_of(pool, order.task_id) == "completed"
    permits = await grant(pool, lead=10)
    assert sorted(permit.url for permit in permits) == ["http://shop.test/p/0", "http://shop.test/p/2"]
    row = await pool.fetchrow("SELECT status, error_message FROM crawl_tasks WHERE url = 'http://shop.test/p/1'")
    assert row is not None
    assert tuple(row) == ("cancelled", "robots_disallowed")
    gap = permits[1].slot_at - permits[0].slot_at
    assert gap >= timedelta(seconds=2), "its crawl delay holds"
    assert await pool.fetchval("SELECT sitemaps FROM robots") == ["http://shop.test/map.xml"]
    assert (await domain(pool))["crawl_delay_seconds"] == 0, "and is kept apart from the operator's"


async def test_s2_a_crawl_delay_of_robots_txt_never_shortens_the_operators(pool: Pool) -> None:
    await make_domain(pool, obey_robots=True, crawl_delay_seconds=5)
    await submit_pages(pool, 3)
    await grant(pool)
    (order,) = await grant(pool)
    await tell(pool, order, "User-agent: *\nCrawl-delay: 1\nDisallow:")
    permits = await grant(pool, lead=20)
    assert len(permits) >= 2
    assert permits[1].slot_at - permits[0].slot_at >= timedelta(seconds=5)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_s2_an_answer_below_500_means_that_all_is_allowed(pool: Pool, status: int) -> None:
    order = await asked(pool)
    key: dict[str, Any] = {"task_id": order.task_id, "attempt": order.attempt, "http_status": status}
    refused = PageRejected(**key, kind=RejectKind.REJECT_KIND_BLOCKED, reason="status 403")
    missing = FetchFailed(**key, kind=FailureKind.FAILURE_KIND_CLIENT_ERROR, error="status 404")
    await make_settle(pool).settle([refused if status == 403 else missing])
    assert len(await grant(pool)) == 3
    assert await pool.fetchval("SELECT state FROM robots") == "absent"


async def test_s2_a_robots_txt_is_followed_to_another_host_and_five_redirects_far(pool: Pool) -> None:
    order = await asked(pool)
    for hop in range(1, 6):
        there = f"https://www{hop}.shop.test/robots.txt"
        moved = FetchReturned(
            task_id=order.task_id, attempt=order.attempt, reason=ReturnReason.RETURN_REASON_REDIRECTED, location=there
        )
        await make_settle(pool).settle([moved])
        (order,) = await grant(pool)
        assert (order.kind, order.url, order.domain) == ("robots", there, "shop.test")
    await tell(pool, order, "User-agent: *\nDisallow: /p/1")
    assert len(await grant(pool)) == 2, "what is found there holds for the host that sent us"


async def test_s2_a_site_in_trouble_is_left_alone_until_its_robots_txt_can_be_read(pool: Pool) -> None:
    order = await asked(pool)
    for _ in range(5):
        broken = FetchFailed(
            task_id=order.task_id, attempt=order.attempt, kind=FailureKind.FAILURE_KIND_SERVER_ERROR, http_status=500
        )
        await make_settle(pool).settle([broken])
        assert await status_of(pool, order.task_id) == "pending", "it is never given up"
        assert await pool.fetchval("SELECT state FROM robots") == "unreachable"
        await come_due(pool)
        (order,) = await grant(pool)
        assert order.kind == "robots"
    await tell(pool, order, "")
    assert len(await grant(pool)) == 3


async def test_s2_it_is_read_again_every_day_and_the_old_rules_hold_meanwhile(pool: Pool) -> None:
    order = await asked(pool)
    await tell(pool, order, "User-agent: *\nDisallow: /p/1")
    row = await pool.fetchrow("SELECT next_crawl_at - completed_at AS later FROM crawl_tasks WHERE kind = 'robots'")
    assert row is not None
    assert row["later"] == timedelta(hours=24)
    await pool.execute("UPDATE crawl_tasks SET next_crawl_at = now() WHERE kind = 'robots'")
    await pool.execute(
        "UPDATE waiting_tasks SET wake_at = (SELECT next_crawl_at FROM crawl_tasks WHERE kind = 'robots')"
    )
    await come_due(pool)
    permits = await grant(pool)
    assert [permit.kind for permit in permits] == ["robots", "page", "page"]
    broken = FetchFailed(
        task_id=permits[0].task_id,
        attempt=permits[0].attempt,
        kind=FailureKind.FAILURE_KIND_SERVER_ERROR,
        http_status=503,
    )
    await make_settle(pool).settle([broken])
    assert await pool.fetchval("SELECT state FROM robots") == "read"
    assert (await domain(pool))["robots_unread"] == 0


async def test_s2_a_domain_may_opt_out(pool: Pool) -> None:
    await make_domain(pool, obey_robots=False)
    await submit_pages(pool, 3)
    assert [permit.kind for permit in await grant(pool)] == ["page"] * 3
    assert await pool.fetchval("SELECT count(*) FROM robots") == 0
