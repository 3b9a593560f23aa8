"""Pages in, items and facts out: the whole parser on real NATS and PostgreSQL."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred, ErrorType
from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched, ParseRequested
from limpet.contracts.events.v1.parse_pb2 import (
    LinkKind,
    LinkRel,
    LinksDiscovered,
    PageParsed,
    ParseFailed,
    ParseStarted,
)
from limpet.kit.beat import Pulse
from limpet.kit.blobs import Blobs
from limpet.kit.bus import Bus, open_bus
from limpet.kit.pg import Pool
from limpet.kit.streams import PARSER
from limpet.kit.underway import Underway
from limpet.parser.intake import Intake
from limpet.parser.links import PART_LINKS
from limpet.parser.parse import Parse
from limpet.parser.quality import Quality
from limpet.parser.store.items import ItemFilter, list_items
from limpet.parser.workers.limits import Limits
from limpet.parser.workers.readers import open_readers
from tests.conftest import PoolFactory
from tests.support import hostile_parsers
from tests.support.heard import Heard, listen
from tests.support.members import ROOT
from tests.support.waiting import until


def boots(*names: str) -> bytes:
    found = [
        {"@type": "Product", "name": name, "offers": {"price": "1.299,00", "priceCurrency": "EUR"}} for name in names
    ]
    return b"<title>Shop</title><script type=application/ld+json>" + orjson.dumps(found) + b"</script>"


@dataclass
class Place:
    bus: Bus
    blobs: Blobs
    pool: Pool
    heard: Heard
    quality: Quality

    async def page(self, task: int, body: bytes, *, attempt: int = 1, **values: Any) -> PageFetched:
        """A page whose body is kept, as a fetcher would tell of it."""
        return PageFetched(
            task_id=task,
            attempt=attempt,
            url=f"https://shop.test/p/{task}",
            **{
                "kind": OrderKind.ORDER_KIND_PAGE, "domain": "shop.test", "parser": "product", "content_type": "text/html", "http_status": 200,
                "body_key": await self.blobs.put(body), "follow": True, "batch": "run", **values,
            },
        )  # fmt: skip

    async def send(self, *pages: PageFetched) -> None:
        """In one message, as far as it goes."""
        await asyncio.gather(*(self.bus.record(page) for page in pages))

    async def names(self, task: int) -> list[str]:
        async with self.pool.acquire() as conn:
            found = await list_items(conn, wanted=ItemFilter(task_id=task), after=0, limit=1000)
        return [orjson.loads(item.data)["name"] for item in found]

    async def facts(self, kind: Any, count: int) -> list[Any]:
        async def there() -> bool:
            return len(self.heard.of(kind)) >= count

        await until(there)
        return list(self.heard.of(kind))


@pytest.fixture
async def place(
    bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    hostile_parsers.install(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    pool = await pool_of("limpet.parser")
    blobs = Blobs.open((tmp_path / "store").as_uri())
    heard = await listen(bus)
    async with (
        open_bus(nats_url, name="parser") as own,
        open_readers(blobs, processes=2, spares=4, limits=Limits(wall_seconds=4)) as readers,
    ):
        pulse = Pulse(own, service="parser", worker_id="test")
        quality = Quality(pool, own)
        parse = Parse(
            pool=pool,
            bus=own,
            readers=readers,
            pulse=pulse,
            underway=Underway(own, ParseStarted),
            quality=quality,
            worker_id="w",
        )
        intake = Intake(parse.on_delivery, slots=4, late=lambda: readers.waiting_for_late)
        readers.on_late = own.look_again
        part = asyncio.create_task(own.consume(PARSER, intake.take, slots=4, free=intake.free))
        yield Place(bus, blobs, pool, heard, quality)
        await intake.drain(5)
        part.cancel()
        await asyncio.gather(part, return_exceptions=True)


async def test_a_fetched_page_becomes_items_and_a_fact(place: Place) -> None:
    page = await place.page(7, boots("Boots", "Hat") + b"<a href=/p/8>next</a><a rel=nofollow href=/cart>cart</a>")
    await place.send(page)
    (parsed,) = await place.facts(PageParsed, 1)
    assert parsed.page == page
    assert (parsed.item_count, parsed.page_type, parsed.link_parts) == (2, "listing", 0)
    assert [(link.url, link.nofollow) for link in parsed.links] == [
        ("https://shop.test/p/8", False),
        ("https://shop.test/cart", True),
    ]
    rows = await place.pool.fetch("SELECT * FROM items ORDER BY position")
    assert [(row["task_id"], row["attempt"], row["position"], row["batch"]) for row in rows] == [
        (7, 1, 0, "run"),
        (7, 1, 1, "run"),
    ]
    assert orjson.loads(rows[0]["data"])["price"] == "1299.00"
    kept = await place.pool.fetchrow("SELECT * FROM pages")
    assert kept is not None
    assert (kept["task_id"], kept["title"], kept["body_key"], kept["item_count"]) == (7, "Shop", page.body_key, 2)


async def test_p5_what_a_page_tells_of_itself_travels_with_it(place: Place) -> None:
    html = b"<head><link rel=canonical href=/list></head><p>No results found.</p><a href=/list?page=3>next</a>"
    follow, alone = await place.page(7, html), await place.page(8, html, follow=False)
    await place.send(follow, alone)
    first, second = sorted(await place.facts(PageParsed, 2), key=lambda parsed: parsed.page.task_id)
    assert (first.canonical_url, first.says_empty, len(first.fingerprint)) == ("https://shop.test/list", True, 8)
    assert first.simhash
    assert [(link.kind, link.rel) for link in first.links] == [(LinkKind.LINK_KIND_PAGINATION, LinkRel.LINK_REL_NEXT)]
    # Where nobody follows, nobody pays for more than the address.
    assert (second.canonical_url, second.says_empty, second.fingerprint) == ("https://shop.test/list", False, b"")


async def test_p5_p6_a_sitemap_larger_than_a_message_comes_in_parts_with_kind_and_date(place: Place) -> None:
    entries = "".join(
        f"<url><loc>https://shop.test/p/{n}</loc><lastmod>2026-11-18</lastmod></url>" for n in range(PART_LINKS + 5)
    )
    body = gzip.compress(f"<urlset>{entries}</urlset>".encode())
    asked = await place.page(7, body, kind=OrderKind.ORDER_KIND_SITEMAP, content_type="application/gzip", follow=False)
    index = await place.page(
        8, b"<sitemapindex><sitemap><loc>/a.xml</loc></sitemap></sitemapindex>", content_type="text/xml"
    )
    broken = await place.page(9, b'<!DOCTYPE a [<!ENTITY b "c">]><urlset/>', content_type="text/xml")
    await place.send(asked, index, broken)
    first, second = sorted(await place.facts(PageParsed, 2), key=lambda parsed: parsed.page.task_id)
    (part,) = await place.facts(LinksDiscovered, 1)
    (failed,) = await place.facts(ParseFailed, 1)
    assert (first.page_type, first.item_count, first.link_parts) == ("sitemap", 0, 1)
    assert (len(first.links), len(part.links), part.task_id) == (PART_LINKS, 5, 7)
    assert {link.lastmod_time.ToJsonString() for link in [*first.links, *part.links]} == {"2026-11-18T00:00:00Z"}
    assert [(link.url, link.kind) for link in second.links] == [("https://shop.test/a.xml", LinkKind.LINK_KIND_SITEMAP)]
    assert (failed.page.task_id, failed.error) == (9, "Refused: it brings its own document type")


async def test_a_page_delivered_twice_has_its_items_once(place: Place) -> None:
    page = await place.page(7, boots("Boots", "Hat"))
    await place.send(page, page)
    await place.facts(PageParsed, 2)
    ids = await place.pool.fetch("SELECT item_id FROM items ORDER BY item_id")
    await place.send(page)
    await place.facts(PageParsed, 3)
    assert await place.names(7) == ["Boots", "Hat"]
    assert await place.pool.fetch("SELECT item_id FROM items ORDER BY item_id") == ids
    assert await place.pool.fetchval("SELECT count(*) FROM pages") == 1


async def test_p9_what_pages_fill_is_counted_as_they_come_and_once_for_each(place: Place) -> None:
    page = await place.page(7, boots("Boots", "Hat"))
    await place.send(page, page, await place.page(8, b"<title>Nothing here</title>"))
    await place.facts(PageParsed, 3)
    await place.send(page)
    await place.facts(PageParsed, 4)
    await place.quality.flush()
    counted = "SELECT field, seen, filled FROM quality_hours WHERE field IN ('*', 'price', 'gtin') ORDER BY field"
    assert [tuple(row) for row in await place.pool.fetch(counted)] == [("*", 2, 1), ("gtin", 2, 0), ("price", 2, 2)]


async def test_the_latest_attempt_is_the_result_and_an_earlier_one_changes_nothing(place: Place) -> None:
    await place.send(await place.page(7, boots("A", "B", "C"), attempt=2))
    await place.facts(PageParsed, 1)
    await place.send(await place.page(7, boots("late"), attempt=1))
    await place.facts(PageParsed, 2)
    assert await place.names(7) == ["A", "B", "C"]
    await place.send(await place.page(7, boots("A", "D"), attempt=3))
    await place.facts(PageParsed, 3)
    assert await place.names(7) == ["A", "D"]
    assert await place.pool.fetchval("SELECT count(*) FROM items") == 2


async def test_two_attempts_in_one_message_leave_the_later_one(place: Place) -> None:
    newer, older = await place.page(7, boots("new"), attempt=2), await place.page(7, boots("old"), attempt=1)
    await place.send(newer, older)
    await place.facts(PageParsed, 2)
    assert await place.names(7) == ["new"]


@pytest.mark.parametrize(("parser", "said"), [("sleeps", "took more than 4 s"), ("segfaults", "SIGSEGV")])
async def test_p7_a_hostile_page_fails_alone_is_told_as_an_error_and_its_message_does_not_come_again(
    place: Place, parser: str, said: str
) -> None:
    await place.send(
        await place.page(1, boots("Boots")),
        await place.page(2, b"<title>x</title>", parser=parser),
        await place.page(3, boots("Hat")),
    )
    await place.facts(PageParsed, 2)
    assert await place.names(1) + await place.names(3) == ["Boots", "Hat"]
    (failed,) = await place.facts(ParseFailed, 1)
    assert (failed.page.task_id, failed.retryable) == (2, False)
    assert said in failed.error
    (error,) = await place.facts(ErrorOccurred, 1)
    assert (error.task_id, error.type, error.worker_id) == (2, ErrorType.ERROR_TYPE_PARSING, "w")
    assert said in error.message
    assert f"in {parser}" in error.stack_trace

    async def acknowledged() -> bool:
        info = await place.bus.client.jetstream().consumer_info(PARSER.stream, PARSER.name)
        return (info.num_ack_pending, info.num_pending, info.num_redelivered) == (0, 0, 0)

    await until(acknowledged)
    assert len(place.heard.of(ParseFailed)) == 1


async def test_p7_messages_with_pages_that_hang_do_not_hold_up_the_others(place: Place) -> None:
    """As many of them as there are slots, each in a message of its own."""
    for number in range(4):
        hanging = await place.page(100 + number, b"<title>x</title>", parser="sleeps", domain=f"trap{number}.test")
        await place.bus.publish_together([hanging], key=f"hang-{number}")
    for task in range(1, 21):
        await place.send(await place.page(task, boots(f"B{task}")))
    await place.facts(PageParsed, 20)
    assert place.heard.of(ParseFailed) == []
    await place.facts(ParseFailed, 4)


async def test_a_page_whose_body_is_missing_fails_alone(place: Place) -> None:
    gone = "ab/" + "0" * 62 + ".pack#0+10"
    pages = [
        await place.page(1, boots("Boots")),
        await place.page(2, b"", body_key=gone),
        await place.page(3, b"", body_key="nonsense"),
        await place.page(4, boots("Hat")),
    ]
    await place.send(*pages)
    failed = await place.facts(ParseFailed, 2)
    await place.facts(PageParsed, 2)
    assert sorted(fact.page.task_id for fact in failed) == [2, 3]
    assert all(fact.error.startswith("BlobMissing: ") and not fact.retryable for fact in failed)
    assert sorted(fact.page.task_id for fact in place.heard.of(PageParsed)) == [1, 4]
    assert await place.pool.fetchval("SELECT count(*) FROM pages") == 2


async def test_a_parser_nobody_knows_is_a_failure_with_its_name(place: Place) -> None:
    await place.send(await place.page(1, b"x", parser="klingon"))
    (failed,) = await place.facts(ParseFailed, 1)
    assert "'klingon'" in failed.error


async def test_very_many_links_come_in_parts_and_all_of_them_before_the_page(place: Place) -> None:
    count = 2 * PART_LINKS + 500
    await place.send(await place.page(1, b"".join(b"<a href=/x/%d></a>" % n for n in range(count)), parser="generic"))
    (parsed,) = await place.facts(PageParsed, 1)
    parts: list[LinksDiscovered] = place.heard.of(LinksDiscovered)
    assert parsed.link_parts == len(parts) == 2
    assert place.heard.facts[-1] == parsed
    assert sorted((part.task_id, part.attempt, part.part) for part in parts) == [(1, 1, 1), (1, 1, 2)]
    urls = {part.part: [link.url for link in part.links] for part in parts}
    found = [*(link.url for link in parsed.links), *urls[1], *urls[2]]
    assert found == [f"https://shop.test/x/{n}" for n in range(count)]


async def test_hostile_pages_cost_themselves_and_not_their_neighbours(place: Place) -> None:
    hostile = [
        b"<div>" * 100_000,
        b"<a href='" + b"x" * 1_000_000 + b"'>t</a>",
        b"<script type=application/ld+json>" + b"[" * 100_000 + b"</script>",
        b'<script type=application/ld+json>{"@type":"Product","name":"\\u0000\\ud800"}</script>',
        b"\x00" * 1000,
        b"\xff" * 1000,
    ]
    pages = [await place.page(number, body) for number, body in enumerate(hostile, start=1)]
    await place.send(*pages, await place.page(99, boots("Boots")))
    facts = [*await place.facts(PageParsed, 6), *await place.facts(ParseFailed, 1)]
    assert sorted(fact.page.task_id for fact in facts) == [1, 2, 3, 4, 5, 6, 99]
    assert [fact.page.task_id for fact in place.heard.of(ParseFailed)] == [1]
    assert await place.names(99) == ["Boots"]


async def test_robots_files_and_probes_are_not_parsed(place: Place) -> None:
    kinds = (OrderKind.ORDER_KIND_ROBOTS, OrderKind.ORDER_KIND_SITEMAP, OrderKind.ORDER_KIND_PROBE)
    others = [await place.page(n, boots("no"), kind=kind) for n, kind in enumerate(kinds, start=1)]
    await place.send(*others, await place.page(9, boots("Boots")))
    (parsed,) = await place.facts(PageParsed, 1)
    assert parsed.page.task_id == 9
    assert await place.pool.fetchval("SELECT array_agg(task_id) FROM pages") == [9]


async def test_a_stored_page_is_parsed_again_when_it_is_asked_for(place: Place) -> None:
    page = await place.page(7, boots("Boots"), parser="generic")
    await place.send(page)
    await place.facts(PageParsed, 1)
    page.parser = "product"
    await place.bus.record(ParseRequested(page=page))
    await place.facts(PageParsed, 2)
    assert await place.names(7) == ["Boots"]
    row = await place.pool.fetchrow("SELECT parser, attempt FROM pages")
    assert row is not None
    assert (row["parser"], row["attempt"]) == ("product", 1)


async def test_a_message_that_is_no_page_is_buried_and_the_next_one_read(place: Place) -> None:
    await place.bus.client.jetstream().publish("crawl.page.fetched", b"\xff\xff\xff")
    await place.send(await place.page(7, boots("Boots")))
    await place.facts(PageParsed, 1)

    async def buried() -> bool:
        return (await place.bus.client.jetstream().stream_info("DEAD")).state.messages == 1

    await until(buried)
