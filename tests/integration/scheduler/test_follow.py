"""What a batch follows: its scope, its budgets, its traps, and the lists that it meets."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from limpet.contracts.events.v1.parse_pb2 import Link
from limpet.kit.pg import Pool
from limpet.scheduler.spend import Spend
from tests.support.following import HOST, ITEM, MISSING, PAGINATION, Crawl, Told, begin_crawl, chain, link
from tests.support.scheduler_api import fields, problem
from tests.support.scheduling import make_domain


async def crawl(pool: Pool, *starts: str, scope: dict[str, Any] | None = None, **settings: Any) -> Crawl:
    await make_domain(pool)
    return await begin_crawl(pool, *starts, scope=json.dumps(scope or {}), **settings)


async def test_s22_depth_counts_links_from_the_start(pool: Pool) -> None:
    done = await (await crawl(pool, "/a", scope={"max_depth": 2})).go(chain("/a", "/b", "/c", "/d", "/e"))
    assert done.paths() == ["/a", "/b", "/c"]
    assert await pool.fetchval("SELECT max(depth) FROM crawl_tasks") == 2
    assert await done.left_out() == {"too_deep": 1}


async def test_s22_patterns_include_and_exclude(pool: Pool) -> None:
    links = [link(path) for path in ("/news/1", "/news/2?print=1", "/shop/1", "/news/private/3")]
    scope = {"include": ["/news/"], "exclude": [r"[?&]print=", "/private/"]}
    done = await (await crawl(pool, scope=scope)).go(lambda path: Told(links))
    assert done.paths() == ["/", "/news/1"], "the start is asked for whatever the patterns say"
    assert await done.left_out() == {"excluded": 2, "not_included": 1}


async def test_s22_a_pattern_that_would_take_for_ever_elsewhere_takes_no_time(pool: Pool) -> None:
    links = [link("/" + "a" * 1000 + str(number)) for number in range(100)]
    done = await (await crawl(pool, scope={"exclude": ["(a+)+$"], "traps": False})).go(lambda path: Told(links))
    assert len(done.paths()) == 101


async def test_s22_nofollow_is_honoured_unless_it_is_told_not_to(pool: Pool) -> None:
    links = [link("/a", nofollow=True), link("/b")]
    done = await (await crawl(pool)).go(lambda path: Told(links))
    assert done.paths() == ["/", "/b"]
    assert await done.left_out() == {"nofollow": 1}
    other = await begin_crawl(pool, "/c", batch="other", scope='{"obey_nofollow": false}')
    assert (await other.go(lambda path: Told(links))).paths() == ["/c", "/a"]


async def test_s22_parameters_are_dropped_kept_and_sorted(pool: Pool) -> None:
    links = [link(path) for path in ("/a?ref=1&b=2", "/a?b=2&ref=3", "/x?id=1&id=0", "/x?id=0&id=1", "/y?utm_source=m")]
    scope = {"drop_params": ["ref*"], "sort_params": True}
    done = await (await crawl(pool, scope=scope)).go(lambda path: Told(links))
    assert sorted(done.paths()) == ["/", "/a?b=2", "/x?id=0&id=1", "/y"]
    other = await begin_crawl(pool, "/c", batch="other", scope='{"keep_params": ["id"]}')
    done = await other.go(lambda path: Told([link("/z?id=1&color=red"), link("/z?color=blue&id=1")]))
    assert done.paths() == ["/c", "/z?id=1"]


async def test_s22_hosts_are_the_same_one_those_below_it_or_those_that_are_listed(pool: Pool) -> None:
    links = [link("http://blog.shop.test/a"), link("http://other.test/b"), link("http://cdn.test/c")]
    done = await (await crawl(pool)).go(lambda path: Told(links))
    assert (done.paths(), await done.left_out()) == (["/"], {"other_host": 3})

    await make_domain(pool, "other.test")
    scope = {"hosts": "same_domain", "allow_hosts": ["other.test"]}
    other = await begin_crawl(pool, "/start", batch="wide", scope=json.dumps(scope))
    await other.go(lambda path: Told(links))
    assert other.paths(host="")[:1] + sorted(other.paths(host="")[1:]) == [
        "shop.test/start",
        "blog.shop.test/a",
        "other.test/b",
    ]
    made = await pool.fetchrow("SELECT * FROM domains WHERE name = 'blog.shop.test'")
    assert made is not None
    assert (made["crawl_delay_seconds"], made["base_url"]) == (0, "http://blog.shop.test/"), (
        "with its parent's settings"
    )
    assert await pool.fetchval("SELECT count(*) FROM domain_changes") == 1, "and others hear of it"


async def test_s22_a_site_cannot_invent_hosts_without_end(pool: Pool) -> None:
    links = [link(f"http://h{number}.shop.test/") for number in range(30)]
    done = await (await crawl(pool, scope={"hosts": "same_domain", "max_hosts": 5})).go(lambda path: Told(links))
    assert await pool.fetchval("SELECT count(*) FROM domains") == 1 + 5
    assert (await done.left_out())["unknown_host"] == 25


async def test_s22_a_batch_takes_no_more_pages_than_it_may(pool: Pool) -> None:
    done = await (await crawl(pool, max_pages=7)).go(lambda path: Told([link(f"/{n}") for n in range(50)]))
    assert len(done.paths()) == 7
    assert (await done.left_out())["max_pages"] > 0


async def test_s22_a_batch_takes_nothing_new_when_it_has_had_its_bytes(pool: Pool) -> None:
    links = [link(f"/{number}") for number in range(3)]
    done = await crawl(pool, max_bytes=1500)
    await done.go(lambda path: Told(links if path == "/" else [link("/more")], size=2000))
    assert "/more" not in done.paths()
    assert await pool.fetchval("SELECT bytes FROM batches") == 8000
    assert (await done.left_out())["max_bytes"] == 1


async def test_s22_what_is_left_of_a_batch_that_has_had_its_bytes_is_cancelled(pool: Pool) -> None:
    await crawl(pool, "/a", "/b", max_bytes=1000)
    assert await Spend(pool).round() == 0
    await pool.execute("UPDATE batches SET bytes = 1000")
    assert await Spend(pool).round() == 2
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE status = 'cancelled'") == 2
    assert await pool.fetchval("SELECT DISTINCT actor FROM audit WHERE event = 'cancelled'") == "budget"


async def test_s22_a_page_that_is_another_address_of_a_page_leads_only_there(pool: Pool) -> None:
    def site(path: str) -> Told:
        if path.startswith("/list?"):
            return Told([link(f"/trap/{path[-1]}")], canonical="http://shop.test/list")
        if path == "/":
            return Told([link(f"/list?view={n}") for n in range(3)])
        return Told([link("/thing")] if path == "/list" else [], canonical="http://shop.test/")

    done = await (await crawl(pool)).go(site)
    assert sorted(done.paths()) == ["/", "/list", "/list?view=0", "/list?view=1", "/list?view=2", "/thing"]
    assert await done.left_out() == {"duplicate": 3}
    other = await begin_crawl(pool, "/list?view=7", batch="other", scope='{"obey_canonical": false}')
    assert "/trap/7" in (await other.go(site)).paths()


@pytest.mark.parametrize(
    ("reason", "links", "taken"),
    [
        ("repeated_segments", lambda path: [f"{path.rstrip('/')}/a/b"], 3),
        ("too_long", lambda path: [f"{path.rstrip('/')}/{len(path)}x"], 17),
        ("calendar", lambda path: [f"/calendar?month={int(path[16:-10] or 0) + 1}&year=2026"], 61),
        ("facets", lambda path: [f"/list?color={len(path)}&size={n}" for n in range(300)], 201),
    ],
)  # fmt: skip
async def test_s22_traps_are_left_at_their_limit(pool: Pool, reason: str, links: Any, taken: int) -> None:
    done = await (await crawl(pool)).go(lambda path: Told([link(one) for one in links(path)]))
    assert len(done.paths()) <= taken
    assert (await done.left_out())[reason] > 0


async def test_s22_session_ids_make_no_new_pages(pool: Pool) -> None:
    turn = 0

    def site(path: str) -> Told:
        nonlocal turn
        turn += 1
        token = f"{turn:032x}a1b2"
        return Told([link(f"/p{n}?PHPSESSID={token}") for n in range(3)] + [link(f"/q;jsessionid={token}?sid={token}")])

    done = await (await crawl(pool)).go(site)
    assert sorted(done.paths()) == ["/", "/p0", "/p1", "/p2", "/q"]


def listing(number: int, *, pages: int, more: tuple[Link, ...] = ()) -> Told:
    items = [link(f"/things/{number * 10 + n}", kind=ITEM) for n in range(5)]
    return Told([*items, *more], page_type="listing") if number <= pages else MISSING


def number_of(path: str) -> int:
    return int(path.partition("page=")[2] or 1)


async def test_s23_a_list_without_links_to_its_pages_is_found_and_its_end_is_no_failure(pool: Pool) -> None:
    def site(path: str) -> Told:
        return listing(number_of(path), pages=4) if path.startswith("/list") else Told(page_type="product")

    done = await (await crawl(pool, "/list", scope={"max_depth": 1})).go(site)
    lists = [path for path in done.paths() if path.startswith("/list")]
    assert lists == ["/list", "/list?page=2", "/list?page=3", "/list?page=4", "/list?page=5"]
    assert len(done.paths()) == 5 + 4 * 5, "pages of a list are as deep as the list"
    batch = await pool.fetchrow("SELECT * FROM batches")
    assert batch is not None
    assert (batch["missed"], batch["open_tasks"]) == (1, 0)
    row = await pool.fetchrow("SELECT status, error_message, is_recurring FROM crawl_tasks WHERE url LIKE '%page=5'")
    assert row is not None
    assert tuple(row) == ("cancelled", "status 404", False)
    breaker = await pool.fetchrow("SELECT breaker_bad, breaker_in_a_row FROM domains")
    assert breaker is not None
    assert tuple(breaker) == (0, 0)


async def test_s23_rules_are_shared_by_the_lists_of_a_domain_listed_and_forgotten(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    def site(path: str) -> Told:
        if path.startswith(("/hats", "/shoes")):
            name, _, rest = path[1:].partition("/seite-")
            more = [link(f"/{name}/seite-2", kind=PAGINATION)] if name == "hats" and not rest else []
            items = [link(f"/things/{name}{rest}{n}", kind=ITEM) for n in range(4)]
            return Told([*items, *more], page_type="listing") if int(rest or 1) <= 3 else MISSING
        return Told(page_type="product")

    first = await (await crawl(pool, "/hats")).go(site)
    assert [path for path in first.paths() if "seite" in path] == [f"/hats/seite-{n}" for n in (2, 3, 4)]
    second = await begin_crawl(pool, "/shoes", batch="second")
    assert [path for path in (await second.go(site)).paths() if "seite" in path or "?" in path] == [
        f"/shoes/seite-{n}" for n in (2, 3, 4)
    ], "what worked for one list is tried first on another"
    (rule, other) = (await api.get(f"/api/admin/pagination-rules?domain={HOST}")).json()["items"]
    assert (rule["path_pattern"], rule["style"], rule["key"]) == ("/hats", "path", "/seite-{}")
    assert (rule["state"], rule["exhausted_at"], rule["worked"]) == ("exhausted", 4, 2)
    assert other["path_pattern"] == "/shoes"
    assert (await api.get("/api/admin/pagination-rules?domain=none.test")).json() == {"items": [], "next": None}
    assert (await api.delete(f"/api/admin/pagination-rules/{rule['rule_id']}")).status_code == 204
    assert fields(await api.delete(f"/api/admin/pagination-rules/{rule['rule_id']}"), 404) == ["rule_id"]
    assert len((await api.get("/api/admin/pagination-rules")).json()["items"]) == 1


async def test_s23_what_never_worked_for_lists_of_a_kind_is_not_tried_again(pool: Pool) -> None:
    def site(path: str) -> Told:
        if path == "/":
            return Told([link(f"/story-of-the-{n}") for n in range(6)])
        if path.startswith("/story-of"):
            if "page" in path:
                return MISSING
            return Told([link(f"/thing/{n}{path[-1]}", kind=ITEM) for n in range(4)])
        return Told(page_type="article")

    done = await (await crawl(pool)).go(site)
    tried = [path for path in done.paths() if "page" in path]
    assert len(tried) <= 2 * 6, tried
    rows = await pool.fetch("SELECT path_pattern, state, worked FROM pagination_rules")
    assert {tuple(row) for row in rows} == {("/*", "invalid", 0)}
    again = await begin_crawl(pool, "/story-of-the-99", batch="again")
    assert [path for path in (await again.go(site)).paths() if "page" in path] == []


async def test_s23_a_clamped_last_page_a_next_without_end_and_a_block_are_told_apart(pool: Pool) -> None:
    refused: set[int] = set()

    def site(path: str) -> Told:
        number = number_of(path)
        if path.startswith("/clamped"):
            return listing(min(number, 3), pages=3)
        if path.startswith("/endless"):
            told = listing(min(number, 3), pages=3)
            return Told(told.links, page_type="listing", next_url=f"/endless?page={number + 1}", text=path)
        if path.startswith("/blocked"):
            if number == 2 and len(refused) < 2:
                refused.add(len(refused))
                return Told(status=403)
            return listing(number, pages=3)
        return Told(page_type="product")

    done = await crawl(pool, "/clamped", "/endless", "/blocked")
    await pool.execute("UPDATE domains SET breaker_failures = 1000, breaker_rate = 1")
    await done.go(site)
    asked = done.paths()
    assert [path for path in asked if path.startswith("/clamped")] == [
        "/clamped", "/clamped?page=2", "/clamped?page=3", "/clamped?page=4",
    ]  # fmt: skip
    assert asked.count("/blocked?page=2") == 3
    assert {"/blocked?page=3", "/blocked?page=4"} <= set(asked)
    # Its next links are followed like any link, until they bring nothing new.
    assert len([path for path in asked if path.startswith("/endless")]) <= 5


async def test_s22_scopes_over_rest_name_what_is_wrong(api: httpx.AsyncClient) -> None:
    body: dict[str, Any] = {"name": "b", "follow": True, "scope": {"include": ["/(a"], "max_depth": -1}}
    assert sorted(fields(await api.post("/api/admin/batches", json=body), 422)) == ["scope.include", "scope.max_depth"]
    assert fields(await api.post("/api/admin/batches", json={"name": "b", "scope": {"x": 1}}), 422) == ["scope.x"]
    scope = {"exclude": ["/x"], "allow_hosts": ["Other.TEST"], "max_depth": 3}
    made = (
        await api.post("/api/admin/batches", json={"name": "b", "follow": True, "scope": scope, "max_bytes": 10**9})
    ).json()
    assert (made["scope"]["exclude"], made["scope"]["allow_hosts"]) == (["/x"], ["other.test"])
    assert (made["max_bytes"], made["left_out"], made["missed"]) == (10**9, [], 0)


async def test_s24_explain_says_which_rule_keeps_a_url_out_of_a_batch(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool)
    await begin_crawl(pool, "/", scope='{"exclude": ["/private/"], "max_depth": 3}')

    async def why(url: str, batch: str = "b") -> dict[str, Any]:
        answer = await api.get("/api/admin/explain", params={"url": url, "batch": batch})
        return problem(answer, 404)

    said = await why("http://shop.test/private/x")
    assert "the batch b leaves it out: an exclude pattern matches" in said["detail"]
    assert {"field": "batch", "message": "excluded"} in said["errors"]
    assert "the batch b would follow a link to it" in (await why("http://shop.test/x?utm_source=a"))["detail"]
    assert "http://shop.test/x" in (await why("http://shop.test/x?utm_source=a"))["detail"]
    assert "its host is not followed" in (await why("http://nowhere.test/"))["detail"]
    assert {"field": "batch", "message": "not known"} in (await why("http://shop.test/y", "none"))["errors"]
