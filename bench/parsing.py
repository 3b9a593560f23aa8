"""`python -m bench.parsing`: what a page of the bench costs each parser, against the tree of the same page alone.

The floor is selectolax's parse of the same bytes, measured in turn with the rest, so that the ratio holds on a busy machine."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from selectolax.lexbor import LexborHTMLParser

from bench.pages import make_pages, product_path
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.document import read_document
from limpet.parser.reading import Reading, read_page

SHOP = "https://shop.test"


def bodies(count: int, *, without_data: bool) -> list[bytes]:
    pages = make_pages(count)
    found = []
    for number in range(count):
        page = pages[product_path(number).encode()]
        body = page.own.partition(b"\r\n\r\n")[2] + page.tail
        # The same page with its data under a type that nobody reads.
        found.append(body.replace(b"application/ld+json", b"application/xx+json") if without_data else body)
    return found


def reader(parser: str, *, follow: bool) -> Callable[[bytes], object]:
    page = PageFetched(url=f"{SHOP}/p/1", parser=parser, content_type="text/html", charset="utf-8", follow=follow)

    def read(body: bytes) -> object:
        found = read_page(page, body)
        assert isinstance(found, Reading), found
        return found

    return read


def extractor(name: str) -> Callable[[bytes], object]:
    from limpet.parser.parsers.registry import installed

    extract = installed()[name].extract
    assert extract is not None
    return lambda body: extract(read_document(body, url=f"{SHOP}/p/1", charset="utf-8"))


def ways(names: list[str]) -> dict[str, Callable[[bytes], object]]:
    found: dict[str, Callable[[bytes], object]] = {"tree alone (floor)": LexborHTMLParser}
    for name in names:
        found[f"{name}: items"] = extractor(name)
        found[f"{name}: items and links"] = reader(name, follow=False)
        found[f"{name}: items and links, sent"] = reader(name, follow=True)
    return found


def measure(pages: list[bytes], names: list[str], *, rounds: int) -> dict[str, list[float]]:
    """CPU-ms per page of each way, the ways in turn within each round."""
    each = ways(names)
    taken: dict[str, list[float]] = {name: [] for name in each}
    for _ in range(rounds):
        for name, way in each.items():
            begun = time.process_time()
            for body in pages:
                way(body)
            taken[name].append((time.process_time() - begun) * 1000 / len(pages))
    return taken


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.parsing", description=__doc__)
    options.add_argument("--pages", type=int, default=300)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--without-data", action="store_true", help="pages without JSON-LD: everything is tried")
    options.add_argument("--parser", action="append", help="product if nobody says otherwise")
    given = options.parse_args()
    pages = bodies(given.pages, without_data=given.without_data)
    taken = measure(pages, given.parser or ["product"], rounds=given.rounds)
    floors = taken["tree alone (floor)"]
    size = sum(map(len, pages)) / len(pages) / 1024
    print(f"{len(pages)} pages of {size:.0f} KB, median of {given.rounds} rounds; ratios within each round")
    for name, values in taken.items():
        ratio = statistics.median(value / floor for value, floor in zip(values, floors, strict=True))
        print(f"  {name:32} {statistics.median(values):7.3f} CPU-ms   least {min(values):7.3f}   {ratio:5.2f} x floor")


if __name__ == "__main__":
    main()
