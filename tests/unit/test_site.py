"""The shop and the plain site do what the other tests take for granted."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from urllib.parse import urldefrag, urljoin
from xml.etree import ElementTree

import aiohttp
import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.support.site import Plain, Record, RequestLog, Shop, serve_apart
from tests.support.site.shop import BUSY, FLAKY, SLOW

LOC = "{http://www.sitemaps.org/schemas/sitemap/0.9}loc"


async def test_every_page_of_the_shop_is_reached_by_following_links_from_home() -> None:
    async with Shop(products=30, slow_seconds=0, failures=0) as shop, aiohttp.ClientSession() as client:
        await client.get(shop.url + BUSY)  # the first visitor is turned away
        found, waiting = {shop.url + "/"}, [shop.url + "/"]
        while waiting:
            page = waiting.pop()
            async with client.get(page) as response:
                assert response.status == 200, page
                document = LexborHTMLParser(await response.text())
            hrefs = [node.attributes.get("href") or "" for node in document.css("a[href]")]
            links = {urldefrag(urljoin(page, href)).url for href in hrefs if not href.startswith("mailto:")}
            fresh = {link for link in links if link.startswith(shop.url)} - found
            found |= fresh
            waiting.extend(fresh)
        assert found == shop.reachable()
        assert shop.product_urls() <= found
        assert {shop.url + path for path in ("/about", "/lamps?page=2", SLOW, FLAKY, BUSY)} <= found
        assert len(shop.product_urls()) == 33


async def test_every_product_page_carries_its_product_as_json_ld() -> None:
    async with Shop(products=8) as shop, aiohttp.ClientSession() as client:
        for product in shop.catalogue.products:
            async with client.get(shop.url + product.path) as response:
                document = LexborHTMLParser(await response.text())
            script = document.css_first('script[type="application/ld+json"]')
            assert script is not None
            facts = json.loads(script.text())
            assert (facts["@type"], facts["sku"], facts["offers"]["price"]) == ("Product", product.sku, product.price)


async def test_the_flaky_page_fails_twice_and_then_works() -> None:
    async with Shop() as shop, aiohttp.ClientSession() as client:
        statuses = [(await client.get(shop.url + FLAKY)).status for _ in range(4)]
        assert statuses == [500, 500, 200, 200]
        assert [record.status for record in shop.log.of(path=FLAKY)] == statuses


async def test_the_busy_page_asks_for_two_seconds_once() -> None:
    async with Shop() as shop, aiohttp.ClientSession() as client:
        first, second = await client.get(shop.url + BUSY), await client.get(shop.url + BUSY)
        assert (first.status, first.headers["Retry-After"], second.status) == (429, "2", 200)


async def test_robots_forbids_a_section_that_nothing_links_to_and_names_a_nested_sitemap() -> None:
    async with Shop() as shop, aiohttp.ClientSession() as client:
        robots = await (await client.get(shop.url + "/robots.txt")).text()
        assert "Disallow: /checkout/" in robots
        assert not any("/checkout" in url for url in shop.reachable())
        index = robots.partition("Sitemap: ")[2].strip()
        children = await _locations(client, index)
        assert len(children) >= 3
        listed = [url for child in children for url in await _locations(client, child)]
        assert sorted(listed) == sorted(shop.reachable())


async def _locations(client: aiohttp.ClientSession, url: str) -> list[str]:
    async with client.get(url) as response:
        assert response.status == 200
        return [entry.text or "" for entry in ElementTree.fromstring(await response.read()).iter(LOC)]


async def test_the_log_tells_when_each_request_started_and_how_many_were_open() -> None:
    before = time.time()
    async with Shop(slow_seconds=0.2) as shop, aiohttp.ClientSession() as client:
        await asyncio.gather(*(client.get(shop.url + SLOW) for _ in range(3)))
        await client.get(shop.url + "/about")
        records = shop.log.of(shop.host, path=SLOW)
        assert len(records) == 3
        assert shop.log.max_concurrency(shop.host) == 3
        assert len(shop.log.gaps()) == 3
        assert all(record.ended - record.started >= 0.19 for record in records)
        assert all(before <= record.started_at <= time.time() for record in records)


def test_gaps_are_counted_within_a_host_and_open_requests_across_all_of_them() -> None:
    log = RequestLog([_record("a", 0.0, 1.0), _record("b", 0.1, 1.0), _record("a", 1.0, 2.0), _record("a", 1.5, 3.0)])
    assert log.gaps() == [1.0, 0.5]
    assert log.short_gaps(0.6, tolerance=0.03) == [0.5]
    assert log.shortest_gap("b") == float("inf")
    assert (log.max_concurrency("a"), log.max_concurrency()) == (2, 2)
    assert log.rate("a") == pytest.approx(2 / 1.5)


def _record(host: str, started: float, ended: float) -> Record:
    return Record(path="/", host=host, started_at=started, started=started, ended=ended, status=200, peer="", agent="")


async def test_a_plain_site_answers_under_many_names_with_pages_of_the_wanted_size() -> None:
    async with Plain(pages=3, ports=5, size=5000) as site, aiohttp.ClientSession() as client:
        assert len(set(site.urls)) == 5
        for url in site.all_page_urls():
            async with client.get(url) as response:
                assert len(await response.read()) == 5000
        assert (await client.get(site.url + "/p/3")).status == 404
        assert site.log.hosts() == set(site.hosts)
        assert len(site.log.of(site.hosts[4])) == 3


async def test_a_site_process_writes_its_log_where_it_was_told_and_stops_when_asked(tmp_path: Path) -> None:
    async with (
        serve_apart("--plain", "4", "--ports", "2", log_file=tmp_path / "log") as site,
        aiohttp.ClientSession() as client,
    ):
        for url in site.urls:
            assert (await client.get(url + "/p/3")).status == 200
        assert [record.path for record in site.log] == ["/p/3", "/p/3"]
        assert {f"http://{host}" for host in site.log.hosts()} == set(site.urls)
