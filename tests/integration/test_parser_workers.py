"""P7: a page that hangs, crashes or grows costs that page only. Real processes, real limits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import PageParsed
from limpet.kit.blobs import Blobs
from limpet.parser import metrics
from limpet.parser.parsers.registry import installed
from limpet.parser.reading import Reading, Unread
from limpet.parser.recipes.folder import RecipeFolder
from limpet.parser.workers.jobs import Outcome
from limpet.parser.workers.limits import Cost, Limits, excess
from limpet.parser.workers.nursery import NoWorkers, open_nursery
from limpet.parser.workers.readers import Readers, open_readers
from tests.support import hostile_parsers
from tests.support.members import ROOT
from tests.support.waiting import until

LIMITS = Limits(wall_seconds=2.5, cpu_seconds=1.5, memory_mb=256)


class Place:
    def __init__(self, blobs: Blobs, readers: Readers) -> None:
        self.blobs, self.readers = blobs, readers

    async def page(self, parser: str, body: bytes = b"", *, domain: str = "shop.test", **values: Any) -> PageFetched:
        key = await self.blobs.put(body or f"<title>{parser}</title><a href=/x>x</a>".encode())
        values = {"content_type": "text/html", "follow": True, **values}
        return PageFetched(url=f"https://{domain}/{parser}", domain=domain, parser=parser, body_key=key, **values)

    async def read(self, *pages: PageFetched) -> list[Outcome]:
        return await self.readers.read_many(pages)

    async def worker(self) -> dict[str, Any]:
        return item((await self.read(await self.page("which")))[0])


@pytest.fixture
def blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    hostile_parsers.install(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    return Blobs.open((tmp_path / "store").as_uri())


@asynccontextmanager
async def opened(blobs: Blobs, *, processes: int = 2, spares: int = 2, limits: Limits = LIMITS) -> AsyncIterator[Place]:
    async with open_readers(blobs, processes=processes, spares=spares, limits=limits) as readers:
        yield Place(blobs, readers)


@pytest.fixture
async def place(blobs: Blobs) -> AsyncIterator[Place]:
    async with opened(blobs) as place:
        yield place


def item(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome.result, Reading), outcome.result
    found: dict[str, Any] = orjson.loads(outcome.result.items[0])
    return found


def unread(outcomes: Sequence[Outcome]) -> list[Unread]:
    return [outcome.result for outcome in outcomes if isinstance(outcome.result, Unread)]


def nested(depth: int) -> bytes:
    return b"<title>deep</title>" + b"<div>" * depth


def bomb() -> bytes:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    return f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "boom">{entities}]><urlset><url><loc>&e11;</loc></url></urlset>'.encode()


async def test_a_page_that_is_read_is_announced_as_the_bus_takes_it(place: Place) -> None:
    page = await place.page("generic", b"<title>T</title><a href=/a>a</a>", task_id=7)
    (outcome,) = await place.read(page)
    assert isinstance(outcome.result, Reading)
    assert (outcome.result.title, outcome.result.link_count) == ("T", 1)
    assert outcome.announcement is not None
    told = PageParsed.FromString(outcome.announcement.parsed)
    assert (told.page, told.item_count, [link.url for link in told.links]) == (page, 1, ["https://shop.test/a"])


async def test_p7_outcomes_come_in_the_order_of_their_pages(place: Place) -> None:
    pages = [await place.page("generic", f"<title>{number}</title>".encode()) for number in range(120)]
    outcomes = await place.read(*pages)
    assert [outcome.page for outcome in outcomes] == pages
    assert [item(outcome)["title"] for outcome in outcomes] == [str(number) for number in range(120)]


@pytest.mark.parametrize(
    ("parser", "said", "traced"),
    [
        ("sleeps", "took more than 2.5 s", "in sleeps"),
        ("backtracks", "took more than 1.5 s of CPU time", "in backtracks"),
        ("grows", "took more than 256 MB of memory", "in grows"),
        ("segfaults", "was ended by SIGSEGV", "in segfaults"),
        ("leaves", "ended by itself with exit code 3", ""),
        ("exits", "SystemExit: enough", "in exits"),
        ("raises", "SiteChanged: no such table", "in raises"),
        ("half_a_letter", "", ""),
    ],
)
async def test_p7_a_hostile_parser_costs_its_page_which_is_named_with_a_traceback(
    blobs: Blobs, parser: str, said: str, traced: str
) -> None:
    # A busy machine may give a page little CPU time for long.
    limits = Limits(wall_seconds=2.5 if parser == "sleeps" else 60, cpu_seconds=1.5, memory_mb=256)
    async with opened(blobs, limits=limits) as place:
        pages = [await place.page("generic") for _ in range(30)]
        pages.insert(13, await place.page(parser))
        outcomes = await place.read(*pages)
    assert [outcome.page for outcome in outcomes if isinstance(outcome.result, Unread)] == [pages[13]]
    (result,) = unread(outcomes)
    assert said in result.error
    assert traced in result.trace


async def test_p7_a_parser_that_writes_everywhere_costs_no_other_page(place: Place) -> None:
    pages = [await place.page("generic") for _ in range(30)]
    pages.insert(13, await place.page("babbles"))
    outcomes = await place.read(*pages)
    assert all(isinstance(outcome.result, Reading) for outcome in outcomes if outcome.page.parser == "generic")


@pytest.mark.parametrize(
    ("name", "body", "content_type"),
    [
        ("a million nodes", b"<title>many</title>" + b"<p>x</p>" * 500_000, "text/html"),
        ("100,000 deep", nested(100_000), "text/html"),
        ("19,000 deep", nested(19_000), "text/html"),
        ("an attribute of 200 MB", b'<title>wide</title><p class="' + b"x" * (200 << 20) + b'">', "text/html"),
        ("an XML bomb", bomb(), "application/xml"),
        ("an XML bomb as HTML", bomb(), "text/html"),
    ],
)
@pytest.mark.parametrize("parser", sorted(installed()))
async def test_p7_a_hostile_page_is_read_or_named_within_its_limits(
    place: Place, parser: str, name: str, body: bytes, content_type: str
) -> None:
    others = [await place.page("generic") for _ in range(30)]
    hostile = await place.page(parser, body, content_type=content_type, domain="trap.test")
    outcomes = await place.read(*others[:10], hostile, *others[10:])
    assert all(isinstance(outcome.result, Reading) for outcome in outcomes if outcome.page.domain == "shop.test")
    (found,) = [outcome for outcome in outcomes if outcome.page.domain == "trap.test"]
    # A busy machine stretches the wall clock, and a process is looked at ten times a second.
    assert found.seconds < LIMITS.wall_seconds + 1
    if isinstance(found.result, Unread):
        assert found.result.error


async def test_p7_throughput_of_the_others_stays_while_pages_hang(blobs: Blobs) -> None:
    async with opened(blobs, limits=Limits(wall_seconds=6, cpu_seconds=5, memory_mb=256)) as place:
        plain = [await place.page("generic", b"<title>x</title>" + b"<p>text</p>" * 500) for _ in range(600)]
        traps = [await place.page("sleeps", domain=f"trap{number}.test") for number in range(3)]

        async def timed(pages: Sequence[PageFetched]) -> tuple[int, float]:
            began, prompt = time.monotonic(), 0
            async for outcomes in place.readers.read(pages):
                prompt += len(outcomes)
                break
            return prompt, time.monotonic() - began

        await timed(plain)
        _, alone = await timed(plain)
        hanging = asyncio.create_task(place.readers.read_many(traps))
        await until(lambda: _is(place.readers.waiting_for_late == 1))
        count, beside = await timed(plain)
        assert count == len(plain)
        assert not hanging.done()
        assert beside < 2 * alone + 1
        assert all("took more than 6 s" in result.error for result in unread(await hanging))


async def _is(value: bool) -> bool:
    return value


async def test_p7_pages_beside_one_that_hangs_are_given_before_it_ends(place: Place) -> None:
    pages = [await place.page("generic") for _ in range(20)]
    groups = [
        [outcome.page.parser for outcome in outcomes]
        async for outcomes in place.readers.read([*pages[:9], await place.page("sleeps"), *pages[9:]])
    ]
    assert groups == [["generic"] * 20, ["sleeps"]]


async def test_p7_a_killer_page_is_tried_twice_at_most(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    first = metrics.WORKER_ENDS.labels("crash")._value.get()
    (result,) = unread(await place.read(await place.page("segfaults")))
    assert "SIGSEGV" in result.error
    assert metrics.WORKER_ENDS.labels("crash")._value.get() - first == 2


async def test_p7_a_worker_that_is_killed_from_outside_costs_no_page(place: Place) -> None:
    slow = b"<title>x</title>" + b"<p>text</p>" * 20_000
    pages = [await place.page("generic", slow) for _ in range(60)]
    workers = [await place.worker() for _ in range(2)]
    reading = asyncio.create_task(place.readers.read_many(pages))
    await asyncio.sleep(0.05)
    for pid in {worker["pid"] for worker in workers}:
        os.kill(pid, signal.SIGKILL)
    assert unread(await reading) == []


async def test_p7_a_domain_whose_pages_cost_workers_waits_in_a_lane_of_its_own(blobs: Blobs) -> None:
    limits = Limits(wall_seconds=1, cpu_seconds=1, memory_mb=256)
    async with opened(blobs, processes=1, spares=1, limits=limits) as place:
        await place.read(await place.page("sleeps", domain="trap.test"))
        traps = [await place.page("sleeps", domain="trap.test") for _ in range(110)]
        # What does not fit into the lane is given back at once, to be asked for later.
        given_back = unread(await anext(place.readers.read(traps)))
        assert len(given_back) == 10
        assert all(result.retryable and "trap.test" in result.error for result in given_back)
        good = [await place.page("generic") for _ in range(30)]
        assert unread(await place.read(*good)) == []


async def test_p1_workers_that_run_read_by_a_recipe_as_it_is_now(blobs: Blobs, tmp_path: Path) -> None:
    file = tmp_path / "recipes" / "site.yaml"
    file.parent.mkdir()
    file.write_text("name: site\nfields: {found: {css: h1}}")
    recipes = RecipeFolder(file.parent)
    async with open_readers(blobs, processes=1, spares=1, limits=LIMITS, recipes=recipes) as readers:
        place = Place(blobs, readers)
        page = await place.page("site", b"<h1>one</h1><h2>two</h2>")
        (before,) = await place.read(page)
        file.write_text("name: site\nfields: {found: {css: 'h2'}}")
        recipes.look()
        (after,) = await place.read(page)
        assert (item(before)["found"], item(after)["found"]) == ("one", "two")
        assert isinstance(before.result, Reading)
        # By the version before, as a comparison of two versions asks for it.
        (again,) = await readers.read_many([page], parser=f"site@{before.result.parser_version}")
        assert (item(again)["found"], again.page.parser) == ("one", f"site@{before.result.parser_version}")
        file.unlink()
        recipes.look()
        (gone,) = unread(await place.read(page))
        assert "there is no parser named 'site'" in gone.error


async def test_p7_what_a_parser_starts_ends_with_it(place: Place) -> None:
    name = f"left-{os.getpid()}-{time.monotonic_ns()}"
    await place.read(await place.page("starts_another", f"<title>{name}</title>".encode()))

    async def gone() -> bool:
        return not any(name in " ".join(found.info["cmdline"] or ()) for found in psutil.process_iter(["cmdline"]))

    await until(gone)


async def test_p7_foreign_code_sees_no_secrets(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMPET_PG_DSN", "postgresql://secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    async with opened(blobs) as place:
        (outcome,) = await place.read(await place.page("env"))
    assert not {"LIMPET_PG_DSN", "AWS_SECRET_ACCESS_KEY"} & set(item(outcome))


async def test_p7_a_worker_that_has_grown_is_replaced_before_it_fails(place: Place) -> None:
    pids = [item((await place.read(await place.page("hogs")))[0])["pid"] for _ in range(12)]
    # 12 pages keep 480 MB, which is more than one process may take.
    assert 2 <= len(set(pids)) < 12


async def test_p7_nothing_is_left_when_the_readers_are_closed(blobs: Blobs) -> None:
    async with opened(blobs) as place:
        worker = await place.worker()
        hanging = asyncio.create_task(place.read(await place.page("sleeps")))
        await until(lambda: _is(place.readers.waiting_for_late == 1))
        zygote = psutil.Process(worker["parent"])
        family = [zygote, *zygote.children()]
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)

    async def gone() -> bool:
        # A process that was killed takes a moment to end. Servers of other tests may be children of this process too.
        return not any(found.is_running() for found in family)

    await until(gone)


SERVICE = """
import asyncio, sys
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.blobs import Blobs
from limpet.parser.workers.limits import Limits
from limpet.parser.workers.readers import open_readers

async def main():
    blobs = Blobs.open(sys.argv[1])
    key = await blobs.put(b"<title>x</title>")
    page = PageFetched(url="https://shop.test/", body_key=key, content_type="text/html", parser="which")
    async with open_readers(blobs, processes=1, spares=1, limits=Limits()) as readers:
        (outcome,) = await readers.read_many([page])
        print(outcome.result.items[0], flush=True)
        hang = PageFetched(url="https://shop.test/", body_key=key, content_type="text/html", parser="sleeps")
        await readers.read_many([hang])

asyncio.run(main())
"""


async def test_p7_workers_die_with_their_service_however_it_dies(blobs: Blobs, tmp_path: Path) -> None:
    service = subprocess.Popen(
        [sys.executable, "-c", SERVICE, (tmp_path / "store").as_uri()], stdout=subprocess.PIPE, text=True
    )
    with service:
        assert service.stdout is not None
        worker = orjson.loads(await asyncio.to_thread(service.stdout.readline))
        family = [psutil.Process(worker["parent"]), *psutil.Process(worker["parent"]).children()]
        service.kill()

    async def gone() -> bool:
        return not any(found.is_running() and found.status() != psutil.STATUS_ZOMBIE for found in family)

    await until(gone)


async def test_p7_the_service_ends_when_no_worker_can_be_had(place: Place) -> None:
    worker = await place.worker()
    running = asyncio.create_task(place.readers.run())
    psutil.Process(worker["parent"]).kill()
    reading = asyncio.create_task(place.read(await place.page("generic")))
    with pytest.raises(NoWorkers):
        await asyncio.wait_for(running, 10)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def test_p1_p7_a_bad_installation_is_told_at_the_start(blobs: Blobs, tmp_path: Path) -> None:
    del blobs
    second = tmp_path / "more_parsers-1.0.dist-info"
    second.mkdir()
    (second / "METADATA").write_text("Metadata-Version: 2.1\nName: more-parsers\nVersion: 1.0\n")
    (second / "entry_points.txt").write_text("[limpet.parsers]\nsleeps = tests.support.hostile_parsers:which\n")
    with pytest.raises(NoWorkers):
        async with open_nursery(memory_mb=256):
            pass


@pytest.mark.parametrize(
    ("cost", "of"),
    [
        (Cost(1, 1, 1), ""),
        (Cost(2.6, 0, 0), "wall"),
        (Cost(1, 1.6, 0), "cpu"),
        (Cost(0, 0, 320 << 20), ""),
        (Cost(0, 0, 321 << 20), "memory"),
    ],
)
def test_p7_a_cost_is_judged_by_every_limit(cost: Cost, of: str) -> None:
    found = excess(cost, LIMITS)
    assert (found.of if found else "") == of
