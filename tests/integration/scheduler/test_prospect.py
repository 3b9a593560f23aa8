"""Sitemaps and archives: asked for when they are due, judged by what the site says of pages that cannot exist, nobody's errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from limpet.kit.pg import Pool
from limpet.scheduler.prospect import Prospect, canary_url
from tests.support.following import MISSING, SITEMAP, Crawl, Told, begin_crawl, link
from tests.support.scheduler_api import fields
from tests.support.scheduling import grant, make_domain, make_settle

YEAR = datetime.now(UTC).year
NONSENSE = canary_url("http://shop.test").removeprefix("http://shop.test")


def prospect(pool: Pool) -> Prospect:
    return Prospect(pool, every=1, freed=lambda: None)


async def look_until_quiet(pool: Pool, site: Any) -> Crawl:
    """Look, crawl what that brought, judge, crawl what was found."""
    crawl = Crawl(pool, make_settle(pool))
    while await prospect(pool).round():
        await crawl.go(site)
    return crawl


async def domain(pool: Pool) -> Any:
    return await pool.fetchrow("SELECT * FROM domains")


async def test_s22_a_domain_is_asked_for_nothing_unless_it_opted_in(pool: Pool) -> None:
    await make_domain(pool)
    assert await prospect(pool).round() == 0
    assert (await domain(pool))["discover"] == "off"


async def test_s22_what_sitemaps_list_is_queued_once_behind_all_else(pool: Pool) -> None:
    await make_domain(pool, discover="sitemaps")
    await begin_crawl(pool, "/known", batch="people")

    def site(path: str) -> Told:
        maps = {
            "/sitemap.xml": [link("/maps/1.xml", kind=SITEMAP), link("http://other.test/m.xml", kind=SITEMAP)],
            "/maps/1.xml": [link("/known"), link("/new")],
        }
        return Told(maps.get(path, []), page_type="sitemap" if path in maps else "page")

    crawl = await look_until_quiet(pool, site)
    assert crawl.paths("sitemap") == ["/sitemap.xml", "/maps/1.xml"]
    assert sorted(crawl.paths()) == ["/known", "/new"], "what is known is not fetched for it"
    rows = {row["url"]: row for row in await pool.fetch("SELECT * FROM crawl_tasks WHERE kind = 'page'")}
    new = rows["http://shop.test/new"]
    assert (new["priority"], new["created_by"], new["is_recurring"]) == (8, "discovery", False)
    names = [row["name"] for row in await pool.fetch("SELECT name FROM batches WHERE priority = 8")]
    assert names == ["discovery:shop.test"]


async def test_s22_robots_txt_names_sitemaps_for_batches_that_read_them(pool: Pool) -> None:
    await make_domain(pool, obey_robots=True)
    crawl = await begin_crawl(pool, "/", sitemaps=True)

    def site(path: str) -> Told:
        if path == "/robots.txt":
            return Told(body="User-agent: *\nDisallow:\nSitemap: http://shop.test/hidden-map.xml\n")
        if path == "/sitemap.xml":
            return MISSING
        return Told([link("/only-there")] if path == "/hidden-map.xml" else [])

    await crawl.go(site)
    assert sorted(crawl.paths("sitemap")) == ["/hidden-map.xml", "/sitemap.xml"]
    assert sorted(crawl.paths()) == ["/", "/only-there"]
    batch = await pool.fetchrow("SELECT * FROM batches")
    assert batch is not None
    assert (batch["open_tasks"], batch["missed"], batch["pages"]) == (0, 1, 2), "sitemaps are none of its pages"
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE status = 'failed'") == 0
    states = await domain(pool)
    assert (states["breaker_bad"], states["breaker_in_a_row"]) == (0, 0)


async def test_s22_it_is_looked_once_a_day_or_when_little_that_matters_is_left(pool: Pool) -> None:
    await make_domain(pool, discover="sitemaps", discover_below=3)
    await begin_crawl(pool, *(f"/{number}" for number in range(5)), batch="people")
    assert await prospect(pool).look() == 1, "a domain that was never looked at is"
    await pool.execute("UPDATE domains SET discovered_at = now() - interval '2 hours'")
    assert await prospect(pool).look() == 0
    before = (await domain(pool))["discovered_at"]
    assert (await domain(pool))["discovered_at"] == before, "there is enough to do"
    await pool.execute("DELETE FROM due_tasks WHERE priority <= 5")
    await prospect(pool).look()
    assert (await domain(pool))["discovered_at"] > before, "little is left to do"
    await pool.execute("UPDATE domains SET discovered_at = now() - interval '30 minutes', discover_below = 1000")
    before = (await domain(pool))["discovered_at"]
    await prospect(pool).look()
    assert (await domain(pool))["discovered_at"] == before, "but not all the time"
    await pool.execute("UPDATE domains SET discovered_at = now() - interval '25 hours', discover_below = 0")
    await prospect(pool).look()
    assert (await domain(pool))["discovered_at"] > before, "once a day in any case"


async def test_s22_sitemaps_are_read_again_on_another_day(pool: Pool) -> None:
    await make_domain(pool, discover="sitemaps")
    entries = [link("/a")]
    crawl = await look_until_quiet(pool, lambda path: Told(entries if path == "/sitemap.xml" else []))
    assert crawl.paths() == ["/a"]
    await pool.execute("UPDATE domains SET discovered_at = now() - interval '25 hours'")
    await pool.execute("UPDATE crawl_tasks SET completed_at = now() - interval '25 hours' WHERE kind = 'sitemap'")
    entries.append(link("/b"))
    crawl = await look_until_quiet(pool, lambda path: Told(entries if path == "/sitemap.xml" else []))
    assert (crawl.paths("sitemap"), crawl.paths()) == (["/sitemap.xml"], ["/b"])


async def crawled(pool: Pool, *urls: str) -> None:
    """A domain whose pages were crawled before anybody looked for its archives."""
    await make_domain(pool)
    await (await begin_crawl(pool, *urls, batch="people")).go(lambda path: Told())
    await pool.execute("UPDATE domains SET discover = 'archives'")


@pytest.mark.parametrize("soft", [False, True])
async def test_s22_archives_are_found_from_the_sites_own_dates_whether_or_not_missing_pages_say_so(
    pool: Pool, soft: bool
) -> None:
    await crawled(pool, f"/news/{YEAR}/01/a-story", f"/news/{YEAR - 2}/05/another")
    archive = f"/news/{YEAR - 1}/03/"
    # The words differ a little wherever the site repeats what it was asked for.
    missing = Told(text="Sorry", simhash=0b1111 << 60) if soft else MISSING

    def site(path: str) -> Told:
        if path == archive:
            return Told([link(f"{archive}found")], simhash=12345)
        if path == f"{archive}found":
            return Told()
        return Told(text=f"Sorry, no {path}", simhash=0b1111 << 60 | len(path) % 3) if soft else missing

    crawl = await look_until_quiet(pool, site)
    probed = crawl.paths("probe")
    assert {"/archive", "/sitemap", NONSENSE, archive, f"/news/{YEAR - 3}/"} <= set(probed)
    assert not [path for path in probed if path.startswith(f"/news/{YEAR + 1}")], "no year that is yet to come"
    assert len(probed) == len(set(probed)) <= 80
    assert crawl.paths() == [archive, f"{archive}found"]
    states = {row["state"] for row in await pool.fetch("SELECT DISTINCT state FROM probes WHERE NOT is_canary")}
    assert states == {"found", "soft_404"} if soft else states == {"found", "missing"}
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE status = 'failed'") == 0
    assert await look_until_quiet(pool, site) is not None
    await pool.execute("UPDATE domains SET discovered_at = now() - interval '25 hours'")
    assert (await look_until_quiet(pool, site)).paths("probe") == [], "nothing is probed twice"


async def test_s22_a_site_that_refuses_probes_is_not_blamed_for_it(pool: Pool) -> None:
    await crawled(pool, "/a")
    await pool.execute("UPDATE domains SET breaker_failures = 1")
    crawl = await look_until_quiet(pool, lambda path: Told(status=403))
    assert len(crawl.paths("probe")) > 3
    states = await domain(pool)
    assert (states["breaker_state"], states["breaker_bad"], states["bearable"]) == ("closed", 0, float("inf"))
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE status = 'failed'") == 0


async def test_s22_probes_come_after_all_that_people_asked_for(pool: Pool) -> None:
    await crawled(pool, "/a")
    await prospect(pool).look()
    await begin_crawl(pool, "/asked-for", batch="later")
    assert next(permit.kind for permit in await grant(pool)) == "page"


async def test_s22_an_archive_that_is_empty_is_none(pool: Pool) -> None:
    await crawled(pool, "/a")
    crawl = await look_until_quiet(pool, lambda path: Told(says_empty=True) if path == "/archive" else MISSING)
    assert crawl.paths() == []


async def test_s22_what_a_domain_looks_for_is_set_over_rest(api: httpx.AsyncClient) -> None:
    made = (await api.post("/api/admin/domains", json={"name": "shop.test"})).json()
    assert (made["discover"], made["discover_below"], made["discovered_at"]) == ("off", 10, None)
    changed = (await api.patch("/api/admin/domains/shop.test", json={"discover": "archives"})).json()
    assert changed["discover"] == "archives"
    assert fields(await api.patch("/api/admin/domains/shop.test", json={"discover": "all"}), 422) == ["discover"]
