"""Domains over REST: seven endpoints, every change an event, and gates that follow the settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from limpet.contracts.events.v1.domain_pb2 import DomainChanged
from limpet.contracts.events.v1.page_pb2 import PageRejected, RejectKind
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.scheduler.announce import Announce
from limpet.scheduler.store.permits import Permit
from tests.support.scheduler_api import as_role, fields
from tests.support.scheduling import grant, make_domain, make_settle, page, submit_pages

DOMAINS = "/api/admin/domains"


async def last_word(bus: Bus, domain_id: int) -> DomainChanged:
    message = await bus.client.jetstream().get_last_msg("FACTS", f"domain.changed.{domain_id}")
    assert message.data is not None
    return DomainChanged.FromString(message.data)


async def test_s14_a_domain_is_created_read_listed_changed_switched_off_and_deleted(api: httpx.AsyncClient) -> None:
    made = await api.post(DOMAINS, json={"name": "Shop.Test", "crawl_delay_seconds": 0.25})
    assert made.status_code == 201, made.text
    assert (made.json()["name"], made.json()["base_url"], made.json()["obey_robots"]) == (
        "shop.test",
        "http://shop.test/",
        True,
    )
    again = await api.post(DOMAINS, json={"name": "shop.test"})
    assert fields(again, 409) == ["name"]
    assert [one["name"] for one in (await api.get(DOMAINS)).json()["items"]] == ["shop.test"]
    changed = await api.patch(f"{DOMAINS}/shop.test", json={"max_concurrent_requests": 9, "parser_name": "product"})
    assert (changed.json()["max_concurrent_requests"], changed.json()["crawl_delay_seconds"]) == (9, 0.25)
    for _ in range(2):
        assert (await api.post(f"{DOMAINS}/shop.test/deactivate")).json()["is_active"] is False
    assert (await api.post(f"{DOMAINS}/shop.test/activate")).json()["is_active"] is True
    assert (await api.delete(f"{DOMAINS}/shop.test", headers=as_role("operate"))).status_code == 403
    assert (await api.delete(f"{DOMAINS}/shop.test")).status_code == 204
    for answer in (await api.get(f"{DOMAINS}/shop.test"), await api.delete(f"{DOMAINS}/shop.test")):
        assert fields(answer, 404) == ["name"]


async def test_s14_a_domain_with_tasks_is_not_deleted(api: httpx.AsyncClient, pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    assert fields(await api.delete(f"{DOMAINS}/shop.test"), 409) == ["name"]
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks") == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"maintenance_start": "02:00"}, "maintenance_end"),
        ({"maintenance_zone": "Mars/Olympus"}, "maintenance_zone"),
        ({"maintenance_start": "25:00", "maintenance_end": "03:00"}, "maintenance_start"),
        ({"breaker_rate": 0}, "breaker_rate"),
        ({"breaker_failures": "5"}, "breaker_failures"),
        ({"crawl_delay_seconds": -1}, "crawl_delay_seconds"),
        ({"obey_robots": "perhaps"}, "obey_robots"),
        ({"robots_delay_seconds": 1}, "robots_delay_seconds"),
    ],
)
async def test_s1_a_bad_setting_is_refused_by_name_and_nothing_changes(
    api: httpx.AsyncClient, pool: Pool, body: dict[str, Any], field: str
) -> None:
    await make_domain(pool)
    before = await pool.fetchrow("SELECT * FROM domains")
    assert field in fields(await api.patch(f"{DOMAINS}/shop.test", json=body), 422)
    assert await pool.fetchrow("SELECT * FROM domains") == before


async def test_s1_every_change_is_an_event_in_order_even_when_nobody_could_send_it_at_first(
    api: httpx.AsyncClient, pool: Pool, bus: Bus
) -> None:
    await api.post(DOMAINS, json={"name": "shop.test"})
    domain_id = await pool.fetchval("SELECT domain_id FROM domains")
    await api.patch(f"{DOMAINS}/shop.test", json={"crawl_delay_seconds": 3})
    await api.post(f"{DOMAINS}/shop.test/deactivate")
    assert await pool.fetchval("SELECT count(*) FROM domain_changes") == 3, "they wait in the table"
    assert await Announce(pool, bus).announce() == 3
    word = await last_word(bus, domain_id)
    assert (word.name, word.crawl_delay_seconds, word.active, word.deleted) == ("shop.test", 3, False, False)
    await api.delete(f"{DOMAINS}/shop.test")
    await Announce(pool, bus).announce()
    assert (await last_word(bus, domain_id)).deleted
    assert await pool.fetchval("SELECT count(*) FROM domain_changes") == 0


async def test_s15_nothing_is_dispatched_inside_a_maintenance_window(api: httpx.AsyncClient, pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 2)
    now = datetime.now(UTC)
    window = {
        "maintenance_start": (now - timedelta(hours=1)).strftime("%H:%M"),
        "maintenance_end": (now + timedelta(hours=1)).strftime("%H:%M"),
    }
    assert (await api.patch(f"{DOMAINS}/shop.test", json=window)).status_code == 200
    assert await grant(pool) == []
    ready = await pool.fetchval("SELECT ready_at - now() FROM domains")
    assert timedelta(minutes=58) < ready <= timedelta(minutes=60), "it is looked at again when the window ends"
    gone = await api.patch(f"{DOMAINS}/shop.test", json={"maintenance_start": None, "maintenance_end": None})
    assert gone.json()["maintenance_start"] is None
    assert len(await grant(pool)) == 2, "and at once when the window is taken away"


async def test_s9_an_inactive_domain_waits_and_goes_on_when_it_is_active_again(
    api: httpx.AsyncClient, pool: Pool
) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    await api.post(f"{DOMAINS}/shop.test/deactivate")
    assert await grant(pool) == []
    await api.post(f"{DOMAINS}/shop.test/activate")
    assert len(await grant(pool)) == 1


def refused(permit: Permit) -> PageRejected:
    return PageRejected(
        task_id=permit.task_id,
        attempt=permit.attempt,
        kind=RejectKind.REJECT_KIND_BLOCKED,
        http_status=403,
        reason="status 403",
    )


async def test_s12_a_domain_that_refuses_us_is_left_alone_probed_singly_and_goes_on_when_it_recovers(
    pool: Pool,
) -> None:
    await make_domain(pool, breaker_successes=2, max_concurrent_requests=10)
    await submit_pages(pool, 30)
    settle = make_settle(pool)
    await settle.settle([refused(permit) for permit in (await grant(pool))[:5]])
    state = await pool.fetchrow("SELECT breaker_state, breaker_reason FROM domains")
    assert state is not None
    assert tuple(state) == ("open", "status 403")
    assert await grant(pool) == [], "whatever room is left"
    await pool.execute("UPDATE domains SET breaker_opened_at = now() - interval '61 s', ready_at = now()")
    assert await grant(pool) == [], "what was out before comes back first"
    rest = await pool.fetch("SELECT task_id, attempt FROM permits")
    await settle.settle([page(Permit(**row, **PLAIN)) for row in rest])
    for left in (1, 0):
        (probe,) = await grant(pool)
        assert await grant(pool) == [], "one probe at a time"
        await settle.settle([page(probe)])
        wanted = "half_open" if left else "closed"
        assert await pool.fetchval("SELECT breaker_state FROM domains") == wanted
    assert len(await grant(pool)) > 1


PLAIN: dict[str, Any] = {
    "url": "http://shop.test/", "domain": "shop.test", "priority": 5, "user_agent": "", "parser": "", "proxy_policy": "none",
    "min_body_bytes": 0, "follow": False, "batch": "", "trace_id": None, "slot_at": None, "start_by": None, "give_up_at": None,
}  # fmt: skip


async def test_s11_blocks_shrink_what_a_domain_and_a_group_get_and_good_pages_bring_it_back(pool: Pool) -> None:
    await make_domain(pool, max_concurrent_requests=8, max_per_group=4, breaker_failures=100, breaker_rate=1)
    await submit_pages(pool, 60, group_key="north")
    settle = make_settle(pool)
    first = await grant(pool)
    assert len(first) == 4, "the group's limit"
    await settle.settle([refused(first[0]), *(page(permit) for permit in first[1:])])
    limits = await pool.fetchrow(
        "SELECT d.limit_now, g.limit_now FROM domains d JOIN domain_groups g USING (domain_id)"
    )
    assert limits is not None
    assert tuple(limits) == (4, 2)
    second = await grant(pool)
    assert len(second) == 2
    for _ in range(8):
        await settle.settle([page(permit) for permit in second])
        second = await grant(pool)
    limits = await pool.fetchrow(
        "SELECT d.limit_now, g.limit_now FROM domains d JOIN domain_groups g USING (domain_id)"
    )
    assert limits is not None
    assert tuple(limits) == (8, 4), "never above what is configured"


async def test_s10_a_full_group_at_the_head_of_the_queue_does_not_hold_up_the_others(pool: Pool) -> None:
    await make_domain(pool, max_per_group=2)
    await submit_pages(pool, 40, group_key="north", priority=1)
    await submit_pages(pool, 3, host="shop.test/other", group_key="south", priority=9)
    await submit_pages(pool, 2, host="shop.test/none", priority=9)
    permits = await grant(pool)
    assert sorted(permit.priority for permit in permits) == [1, 1, 9, 9, 9, 9]
    assert await grant(pool) == []
    await make_settle(pool).settle([page(permits[0])])
    assert [permit.priority for permit in await grant(pool)] == [1], "and room in a group is used at once"


async def test_s9_priority_goes_before_age_and_the_domains_take_turns(pool: Pool) -> None:
    for name in ("big.test", "small.test"):
        await make_domain(pool, name)
    await submit_pages(pool, 50, host="big.test")
    await submit_pages(pool, 2, host="big.test/urgent", priority=1)
    await submit_pages(pool, 3, host="small.test")
    permits = await grant(pool, window=8)
    assert [permit.priority for permit in permits] == [1, 1, 5, 5, 5, 5, 5, 5]
    assert {permit.domain for permit in permits} == {"big.test"}, "it has waited longest"
    permits = await grant(pool, window=20)
    assert [permit.domain for permit in permits][:3] == ["small.test"] * 3, "then it is the other's turn"
    assert {permit.domain for permit in permits[3:]} == {"big.test"}, "and what that leaves goes on to the first"
