"""Over the front door: a domain, URLs, their history, their items, and one trace through every service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.door import Door
from tests.support.forward_proxy import forward_proxy
from tests.support.site import Plain, Shop
from tests.support.waiting import until


def logged(folder: Path, trace_id: str) -> dict[str, set[str]]:
    """The events that each process has logged of a trace."""
    found: dict[str, set[str]] = {}
    for log in (folder / "logs").glob("*.log"):
        for line in log.read_bytes().splitlines():
            if trace_id.encode() in line:
                entry = json.loads(line)
                found.setdefault(entry["service"], set()).add(entry["event"])
    return found


async def test_a_hundred_urls_are_completed_with_their_attempts(door: Door) -> None:
    async with Plain(100) as site:
        answer = await door.send(
            "POST",
            "/api/admin/domains",
            body={"name": site.host, "crawl_delay_seconds": 0, "max_concurrent_requests": 20},
        )
        assert answer.status_code == 201
        await door.submit(site.page_urls(), batch="hundred")
        await door.completed("hundred", 100, seconds=30)
        tasks = (await door.get("/api/admin/tasks?batch=hundred&limit=1000"))["items"]
        assert sorted(task["url"] for task in tasks) == sorted(site.page_urls())
        for task in tasks:
            attempts = (await door.get(f"/api/admin/tasks/{task['task_id']}/attempts"))["items"]
            assert [(row["attempt"], row["phase"], row["outcome"]) for row in attempts] == [
                (1, "fetch", "fetched"),
                (1, "parse", "parsed"),
            ]
        items = (await door.get("/api/items?batch=hundred&limit=1000"))["items"]
        assert sorted(item["url"] for item in items) == sorted(site.page_urls())
        assert len(site.log.of(prefix="/p/")) == 100


async def test_one_url_is_one_trace_in_the_logs_of_every_service(door: Door) -> None:
    async with Plain(1) as site, forward_proxy() as proxy:
        added = await door.send(
            "POST", "/api/admin/proxies", body={"protocol": "http", "host": "127.0.0.1", "port": proxy.port}
        )
        assert added.status_code == 201, added.text
        await door.make_domain(site.host, crawl_delay_seconds=0, proxy_policy="required")
        answer = await door.send("POST", "/api/admin/tasks", body={"url": site.page_urls()[0]})
        assert answer.status_code == 201, answer.text
        task = answer.json()

        async def done() -> Any:
            found = await door.get(f"/api/admin/tasks/{task['task_id']}")
            return found if found["status"] == "completed" else None

        done_task = await until(done, seconds=30)
        assert done_task["trace_id"] == task["trace_id"]
        assert proxy.seen == [f"{site.url}/robots.txt", task["url"]], "both were fetched through the proxy"
        attempts = (await door.get(f"/api/admin/tasks/{task['task_id']}/attempts"))["items"]
        assert attempts[0]["proxy_id"] == added.json()["proxy_id"]

        async def all_five() -> Any:
            found = logged(door.platform.data, task["trace_id"])
            return found if len(found) == 5 else None

        events = await until(all_five, seconds=10)
        assert {"request_passed_on"} <= events["health"]
        assert {"order_sent", "task_settled"} <= events["scheduler"]
        assert {"proxy_leased"} <= events["proxy-broker"]
        assert {"page_settled"} <= events["fetcher"]
        assert {"page_parsed"} <= events["parser"]


async def test_submitting_again_gives_the_task_that_exists(door: Door) -> None:
    async with Plain(1) as site:
        await door.make_domain(site.host, crawl_delay_seconds=0)
        first = await door.send("POST", "/api/admin/tasks", body={"url": site.page_urls()[0]})
        again = await door.send("POST", "/api/admin/tasks", body={"url": site.page_urls()[0] + "#fragment"})
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["task_id"] == again.json()["task_id"]


async def test_a_followed_shop_is_found_whole_its_failures_are_retried_and_its_products_extracted(door: Door) -> None:
    async with Shop(40, slow_seconds=0.5, retry_after=1) as shop:
        await door.make_domain(shop.host, crawl_delay_seconds=0, parser_name="product", max_concurrent_requests=10)
        await door.submit([shop.url + "/"], batch="shop", follow=True)
        await door.completed("shop", len(shop.reachable()), seconds=60)
        assert {task["url"] for task in (await door.get("/api/admin/tasks?batch=shop&limit=1000"))["items"]} == (
            shop.reachable()
        )
        items = (await door.get("/api/items?batch=shop&limit=1000"))["items"]
        products = {item["url"]: item["data"] for item in items if item["data"].get("name")}
        assert set(products) >= shop.product_urls()
        assert all(products[url]["name"] for url in shop.product_urls())
        flaky = await door.rows(
            "scheduler", "SELECT attempt FROM crawl_tasks WHERE url = $1", shop.url + "/special/flaky"
        )
        assert flaky[0]["attempt"] == 3
