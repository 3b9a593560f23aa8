"""What reading a page costs in CPU time, all processes together: `python -m bench.readers [PAGES]`.

Reads generated product pages of about 43 KB from a page store, once in this process and once in workers. Storing items and
talking to NATS are not in it.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import uvloop

from bench.pages import make_pages, product_path
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.blobs import Blobs
from limpet.parser.announcement import announcement
from limpet.parser.reading import Reading, read_page
from limpet.parser.workers.limits import Limits
from limpet.parser.workers.readers import open_readers

MESSAGE = 100
IN_HAND = 4


def cpu() -> float:
    """Of this process and of all that it has seen end."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


async def stored(blobs: Blobs, count: int) -> list[list[PageFetched]]:
    """In messages, as a fetcher would tell of them."""
    made = make_pages(count)
    bodies = [
        (page.own + page.tail).partition(b"\r\n\r\n")[2]
        for page in (made[product_path(n).encode()] for n in range(count))
    ]
    messages = []
    for start in range(0, count, MESSAGE):
        keys = await blobs.put_many(bodies[start : start + MESSAGE])
        messages.append([
            PageFetched(
                task_id=number, attempt=1, url=f"http://bench.test/p/{number}", domain="bench.test", follow=True,
                parser="product", content_type="text/html", charset="utf-8", body_key=key,
            )
            for number, key in enumerate(keys, start=start)
        ])  # fmt: skip
    return messages


async def here(blobs: Blobs, messages: Sequence[Sequence[PageFetched]]) -> None:
    for pages in messages:
        for page, body in zip(pages, await blobs.get_many([page.body_key for page in pages]), strict=True):
            assert isinstance(body, bytes)
            reading = read_page(page, body)
            assert isinstance(reading, Reading)
            assert announcement(page, reading, started_at=0, seconds=0).parsed


async def in_workers(blobs: Blobs, messages: Sequence[Sequence[PageFetched]], *, processes: int) -> None:
    async with open_readers(blobs, processes=processes, spares=2, limits=Limits()) as readers:
        left = list(messages)

        async def hand() -> None:
            while left:
                for outcome in await readers.read_many(left.pop()):
                    assert isinstance(outcome.result, Reading)

        await asyncio.gather(*(hand() for _ in range(IN_HAND)))


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        blobs = Blobs.open(Path(folder).as_uri())
        messages = await stored(blobs, count)
        await here(blobs, messages[:2])
        ways: dict[str, Callable[[Sequence[Sequence[PageFetched]]], Awaitable[None]]] = {
            "in this process": partial(here, blobs),
            "in 1 worker": partial(in_workers, blobs, processes=1),
            "in 2 workers": partial(in_workers, blobs, processes=2),
        }
        for name, measured in ways.items():
            before = cpu()
            await measured([])
            start = cpu() - before
            before, began = cpu(), time.perf_counter()
            await measured(messages)
            wall, used = time.perf_counter() - began, cpu() - before - start
            print(
                f"{name:16} {used / count * 1000:6.3f} CPU-ms a page, {count / wall:6.0f} pages a second, start {start:.2f} s"
            )


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000))
