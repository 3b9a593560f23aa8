"""Fill rates over time: counted without a row per page, judged, told once, shown and forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.quality_pb2 import QualityChanged
from limpet.health.fleet import Fleet
from limpet.health.watch import Watch
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.kit.streams import HEALTH_ERRORS
from limpet.parser.metrics import FIELDS_DROPPED
from limpet.parser.quality import Quality
from limpet.parser.reading import Reading
from limpet.parser.retention import Retention
from tests.conftest import PoolFactory
from tests.support.heard import Heard, listen
from tests.support.parser_api import T0, keep, page, parser_api, product
from tests.support.parts import running
from tests.support.waiting import until

START = datetime.now(UTC).replace(minute=5, second=0, microsecond=0) - timedelta(hours=30)


@dataclass
class Time:
    now: datetime = START


@dataclass(frozen=True)
class Lab:
    pool: Pool
    time: Time
    quality: Quality
    heard: Heard

    def crawl(self, count: int, item: dict[str, Any] | None, *, domain: str = "shop.test") -> None:
        items = [orjson.dumps(item).decode()] if item is not None else []
        fetched = PageFetched(domain=domain, parser="product")
        self.quality.note(
            (fetched, Reading(parser_version="1", page_type="product", items=items)) for _ in range(count)
        )

    async def hour(self) -> None:
        """The rest of this hour, and enough of the next one."""
        await self.quality.round()
        self.time.now += timedelta(hours=1)
        await self.quality.round()

    async def told(self) -> Sequence[tuple[str, str, bool]]:
        # What the server passed on before this comes before its answer.
        await self.quality.bus.client.flush()
        return [(event.domain, event.field, event.dropped) for event in self.heard.of(QualityChanged)]


@pytest.fixture
async def lab(bus: Bus, pool_of: PoolFactory) -> Lab:
    pool, time = await pool_of("limpet.parser"), Time()
    return Lab(pool, time, Quality(pool, bus, clock=lambda: time.now), await listen(bus))


async def usual(lab: Lab, hours: int = 5) -> None:
    for _ in range(hours):
        lab.crawl(100, product())
        lab.crawl(100, product(), domain="other.test")
        await lab.hour()


async def test_p9_a_field_that_is_not_filled_any_more_is_told_once_and_its_recovery_too(lab: Lab) -> None:
    await usual(lab)
    assert await lab.told() == []
    lab.crawl(100, product(price=None))
    lab.crawl(100, product(), domain="other.test")
    await lab.quality.round()
    assert await lab.told() == [("shop.test", "price", True)], "while the hour goes on"
    (event,) = lab.heard.of(QualityChanged)
    assert (event.parser, event.rate, event.seen) == ("product", 0.0, 100)
    assert event.baseline == pytest.approx(1.0)
    assert FIELDS_DROPPED._value.get() == 1
    await lab.hour()
    lab.crawl(100, product(price=None))
    await lab.hour()
    assert len(await lab.told()) == 1
    lab.crawl(200, product())
    await lab.hour()
    assert (await lab.told())[1:] == [("shop.test", "price", False)]
    assert FIELDS_DROPPED._value.get() == 0


async def test_p9_a_field_that_vanishes_from_the_items_is_not_filled(lab: Lab) -> None:
    await usual(lab)
    lab.crawl(100, {name: value for name, value in product().items() if name != "availability"})
    await lab.quality.round()
    assert await lab.told() == [("shop.test", "availability", True)]


async def test_p9_pages_that_have_no_items_at_all_are_noticed(lab: Lab) -> None:
    await usual(lab)
    lab.crawl(100, None)
    await lab.quality.round()
    assert await lab.told() == [("shop.test", "*", True)]


async def test_p9_two_parsers_count_into_the_same_hours_and_tell_once(lab: Lab, bus: Bus) -> None:
    other = Quality(lab.pool, bus, clock=lambda: lab.time.now)
    twin = Lab(lab.pool, lab.time, other, lab.heard)
    for _ in range(5):
        twin.crawl(60, product())
        lab.crawl(60, product())
        await other.flush()
        await lab.hour()
    row = await lab.pool.fetchrow("SELECT seen, filled FROM quality_hours WHERE field = 'price' LIMIT 1")
    assert row is not None
    assert tuple(row) == (120, 120)
    twin.crawl(60, product(price=None))
    lab.crawl(60, product(price=None))
    await other.flush()
    await lab.quality.round()
    await other.round()
    assert await lab.told() == [("shop.test", "price", True)]


async def test_p9_ten_thousand_pages_are_a_few_rows(lab: Lab) -> None:
    lab.crawl(10_000, product())
    await lab.quality.flush()
    assert await lab.pool.fetchval("SELECT count(*) FROM quality_hours") == 5
    assert await lab.pool.fetchval("SELECT seen FROM quality_hours WHERE field = 'price'") == 10_000


async def test_p9_the_api_shows_rates_and_hours_and_what_has_dropped(lab: Lab) -> None:
    await usual(lab, hours=4)
    lab.crawl(100, product(price=None))
    await lab.quality.round()
    async with parser_api(lab.pool) as api:
        everything = await api.ok("GET", "/api/admin/quality", params={"hours": 48})
        assert len(everything["items"]) == 10
        (price,) = (await api.ok("GET", "/api/admin/quality?dropped=true&hours=48"))["items"]
        assert (price["domain"], price["parser"], price["field"], price["rate"]) == ("shop.test", "product", "price", 0)
        assert [(hour["seen"], hour["filled"]) for hour in price["hours"]] == [(100, 100)] * 4 + [(100, 0)]
        first = await api.ok("GET", "/api/admin/quality?limit=6")
        rest = await api.ok("GET", "/api/admin/quality", params={"limit": 6, "after": first["next"]})
        assert (len(first["items"]), len(rest["items"]), rest["next"]) == (6, 4, None)


async def test_p9_health_keeps_a_drop_as_an_error_of_parsing(bus: Bus, pool_of: PoolFactory) -> None:
    pool = await pool_of("limpet.health")
    watch = Watch(pool, Fleet(limit=100, forget_after_seconds=10))
    drop = QualityChanged(
        domain="shop.test", parser="product", field="price", dropped=True, rate=0.1, baseline=0.9, seen=50
    )
    async with running(bus.consume(HEALTH_ERRORS, watch.on_error_occurred, slots=4)):
        await bus.record(QualityChanged(domain="well.test", field="price", dropped=False))
        await bus.record(drop)

        async def there() -> bool:
            return bool(await pool.fetchval("SELECT count(*) > 0 FROM scraper_errors"))

        await until(there)
    (row,) = await pool.fetch("SELECT service, error_type, operation, error_message FROM scraper_errors")
    assert tuple(row) == (
        "parser", "parsing", "quality", "shop.test: items with price fell from 90% to 10% of 50",
    )  # fmt: skip


async def test_x4_old_versions_hours_and_jobs_go_and_what_is_now_stays(pool_of: PoolFactory) -> None:
    pool = await pool_of("limpet.parser")
    for attempt in range(1, 8):
        await keep(pool, page(1, product(price=f"{attempt}.00"), attempt=attempt))
    await keep(pool, page(2, product()))
    await keep(pool, page(2, attempt=2, page_type="page"))
    await pool.execute(
        """INSERT INTO quality_hours VALUES ('d', 'p', $1, '*', 1, 1), ('d', 'p', now(), '*', 1, 1);""", T0
    )
    await pool.execute(
        """INSERT INTO reparse_jobs (parser, dry_run, created_by, last_task_id, total, state, finished_at)
           VALUES ('', false, 'x', 0, 0, 'completed', now() - interval '40 d'), ('', false, 'x', 0, 0, 'running', NULL)"""
    )
    keep_all = Retention(pool, history=None, quality=timedelta(days=100_000))
    await keep_all.round()
    assert await pool.fetchval("SELECT count(*) FROM product_versions") == 9
    old = datetime.now(UTC) - T0 - timedelta(hours=6, minutes=30)
    await Retention(pool, history=old, quality=timedelta(days=30), batch=2).round()
    kept = await pool.fetch("SELECT version FROM product_versions ORDER BY version")
    assert [row["version"] for row in kept] == [7]
    assert await pool.fetchval("SELECT array_agg(task_id) FROM products") == [1]
    assert await pool.fetchval("SELECT count(*) FROM quality_hours") == 1
    assert await pool.fetchval("SELECT array_agg(state) FROM reparse_jobs") == ["running"]
    await Retention(pool, history=timedelta(0), quality=timedelta(days=30)).round()
    assert await pool.fetchval("SELECT count(*) FROM product_versions") == 1, "the last one is what it is now"
