"""Policies of domains over real proxies, judged by the proxies' own logs; and passwords that came in by a list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.support.door import Door
from tests.support.forward_proxy import ForwardProxy, forward_proxy
from tests.support.left_behind import forms, left_behind, listen_to_answers, places_of
from tests.support.proxy_pool import add_proxy, assign, pool, set_policy, uses
from tests.support.site.plain import Plain

HOUR = 3600


@pytest.fixture
async def proxies() -> AsyncIterator[list[ForwardProxy]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(forward_proxy()) for _ in range(3)]


async def domain(door: Door, site: Plain) -> None:
    await door.make_domain(site.host, crawl_delay_seconds=0, max_concurrent_requests=3, proxy_policy="required")


async def test_b6_sticky_by_hour_keeps_one_proxy_for_each_hour(door: Door, proxies: list[ForwardProxy]) -> None:
    async with Plain(30) as site:
        await domain(door, site)
        await pool(door, site.host, *proxies)
        await set_policy(door, site.host, strategy="sticky", sticky_by="hour")
        await door.submit(site.page_urls(), batch="sticky-hour")
        await door.completed("sticky-hour", 30, seconds=60)
        kept: dict[int, set[int]] = defaultdict(set)
        for use in uses(*proxies):
            kept[int(use.at // HOUR)].add(use.proxy.port)
        assert len(uses(*proxies)) == 30
        assert {len(ports) for ports in kept.values()} == {1}


async def test_b6_sticky_by_session_keeps_one_proxy_for_each_group_of_tasks(
    door: Door, proxies: list[ForwardProxy]
) -> None:
    groups = 3
    async with Plain(30) as site:
        await domain(door, site)
        await pool(door, site.host, *proxies)
        await set_policy(door, site.host, strategy="sticky", sticky_by="session")
        answer = await door.send("POST", "/api/admin/batches", body={"name": "sticky-session"})
        assert answer.status_code == 201, answer.text
        tasks = [{"url": url, "group_key": f"group-{n % groups}"} for n, url in enumerate(site.page_urls())]
        answer = await door.send("POST", "/api/admin/tasks/bulk", body={"tasks": tasks, "batch": "sticky-session"})
        assert answer.status_code == 200, answer.text
        await door.completed("sticky-session", 30, seconds=60)
        kept: dict[int, set[int]] = defaultdict(set)
        for use in uses(*proxies):
            kept[int(use.path.removeprefix("/p/")) % groups].add(use.proxy.port)
        assert sorted(kept) == list(range(groups))
        assert {len(ports) for ports in kept.values()} == {1}
        assert len(set.union(*kept.values())) > 1, "sessions are spread over the proxies"


async def test_b3_only_proxies_of_the_country_are_used(door: Door, proxies: list[ForwardProxy]) -> None:
    near, far, nowhere = proxies
    async with Plain(12) as site:
        await domain(door, site)
        proxy_ids = [await add_proxy(door, near, country_code="DE"), await add_proxy(door, far, country_code="FR")]
        await assign(door, site.host, [*proxy_ids, await add_proxy(door, nowhere)])
        await set_policy(door, site.host, country_code="DE")
        await door.submit(site.page_urls(), batch="country")
        await door.completed("country", 12, seconds=60)
        assert (len(uses(near)), far.log, nowhere.log) == (12, [], [])


async def test_b1_a_password_that_came_in_by_a_list_is_left_nowhere(door: Door) -> None:
    secret, wrong = "l1sted-Narwhal%Oboe-77", "l1sted-Tapir%Oboe-78"
    answers = listen_to_answers(door)
    async with Plain(6) as site, forward_proxy(credentials=f"lister:{secret}") as proxy:
        await domain(door, site)
        lines = f"127.0.0.1:{proxy.port}:lister:{secret}\n127.0.0.1:99999:lister:{wrong}\n"
        for dry_run in ("true", "false"):
            answer = await door.client.post(
                f"/api/admin/proxies/import?dry_run={dry_run}&domain={site.host}",
                content=lines,
                headers={"Content-Type": "text/plain"},
            )
            assert answer.status_code == 200, answer.text
        await door.submit(site.page_urls(), batch="listed")
        await door.completed("listed", 6, seconds=60)
        assert {use.user for use in uses(proxy)} == {"lister"}
    texts = {**answers, **await left_behind(door.platform)}
    assert "dump limpet_proxy_broker" in places_of({b"lister"}, texts)
    for one in (secret, wrong):
        assert places_of(forms("lister", one), texts) == []
