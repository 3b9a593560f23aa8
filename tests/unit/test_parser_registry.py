"""P1: parsers by name, from whatever distribution is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import orjson
import pytest

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import Link
from limpet.parser.parsers import Found, Parser
from limpet.parser.parsers.registry import GROUP, BadParser, installed, load
from limpet.parser.reading import Reading, Unread, read_page

URL = "https://shop.test/a"

SITE_PARSERS = """
from limpet.parser.parsers import Found

def shoes(document):
    return [{"heading": document.tree.css_first("h1").text()}]

class Boots:
    version = "7"
    page_type = "product"

    def extract(self, document):
        return [{"boots": document.head.title}]

class Rows:
    content_types = {"text/csv"}

    def read(self, body, url, content_type):
        return Found(items=[{"row": line} for line in body.decode().split()], page_type="table")

class Nothing:
    name = "nothing"

class Renamed:
    name = "other"

    def extract(self, document):
        return []
"""


@pytest.fixture
def site_parsers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "site_parsers.py").write_text(SITE_PARSERS)
    folder = tmp_path / "site_parsers-3.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: site-parsers\nVersion: 3.1\n")
    lines = ("shoes = site_parsers:shoes", "boots = site_parsers:Boots", "rows = site_parsers:Rows")
    (folder / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("site_parsers", None)


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def ours() -> list[EntryPoint]:
    return [found for found in entry_points(group=GROUP) if found.value.startswith("limpet.parser.")]


def read(parser: str, body: bytes, content_type: str = "text/html") -> Reading | Unread:
    page = PageFetched(url=URL, parser=parser, content_type=content_type, follow=True)
    return read_page(page, body, parsers=load(entry_points(group=GROUP)))


def test_p1_the_built_in_parsers_are_found_by_entry_point() -> None:
    assert {"generic", "product"} <= set(installed())
    assert all(parser.name == name and parser.version for name, parser in installed().items())


@pytest.mark.usefixtures("site_parsers")
def test_p1_an_installed_function_or_class_is_a_parser_by_its_name() -> None:
    shoes, boots = read("shoes", b"<h1>Red</h1>"), read("boots", b"<title>Blue</title>")
    assert isinstance(shoes, Reading)
    assert isinstance(boots, Reading)
    # A function has the version of its distribution.
    assert (shoes.parser_version, shoes.page_type, [*map(orjson.loads, shoes.items)]) == (
        "3.1",
        "page",
        [{"heading": "Red"}],
    )
    assert (boots.parser_version, boots.page_type, [*map(orjson.loads, boots.items)]) == (
        "7",
        "product",
        [{"boots": "Blue"}],
    )


@pytest.mark.usefixtures("site_parsers")
def test_p1_a_parser_of_bytes_reads_the_content_types_that_it_names() -> None:
    table = read("rows", b"1\n2", "text/csv")
    assert isinstance(table, Reading)
    assert (table.page_type, [*map(orjson.loads, table.items)]) == ("table", [{"row": "1"}, {"row": "2"}])
    assert read("rows", b"1\n2", "image/png") == Reading(parser_version="3.1", page_type="file")


def test_links_of_a_parser_of_bytes_go_on_only_where_they_are_followed() -> None:
    links = [Link(url="https://shop.test/1")]
    parser = Parser("map", "1", "sitemap", read=lambda body, url, content_type: Found(links=links))
    for follow in (True, False):
        page = PageFetched(url=URL, parser="map", content_type="application/xml", follow=follow)
        reading = read_page(page, b"<x/>", parsers={"map": parser})
        assert isinstance(reading, Reading)
        assert (reading.page_type, reading.link_count, reading.links) == ("sitemap", 1, links if follow else [])


@pytest.mark.parametrize(
    ("named", "given", "reads"),
    [
        ((), "image/png", True),
        (("application/json",), "application/json", True),
        (("application/json",), "application/geo+json", False),
        (("application/*+json",), "application/geo+json", True),
        (("application/*+json",), "application/json", False),
        (("application/*+json",), "", False),
    ],
)
def test_a_content_type_is_read_by_name_or_by_suffix(named: tuple[str, ...], given: str, reads: bool) -> None:
    parser = Parser("x", "1", "page", read=lambda *_: Found(), content_types=frozenset(named))
    assert parser.reads(given) is reads


@pytest.mark.usefixtures("site_parsers")
@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ([point("product", "site_parsers:shoes")], "two parsers are named 'product'"),
        ([point("x", "no_such_module:thing")], "does not load: .*No module named 'no_such_module'"),
        ([point("x", "site_parsers:missing")], "does not load"),
        ([point("x", "site_parsers:Nothing")], "calls itself 'nothing'"),
        ([point("nothing", "site_parsers:Nothing")], "has neither extract"),
        ([point("x", "site_parsers:Renamed")], "calls itself 'other'"),
    ],
)
def test_p1_an_installed_parser_that_cannot_be_used_is_refused_at_the_start(
    extra: list[EntryPoint], complaint: str
) -> None:
    with pytest.raises(BadParser, match=complaint):
        load([*entry_points(group=GROUP), *extra])


def test_a_stale_installation_of_our_own_parsers_says_so() -> None:
    with pytest.raises(BadParser, match="install it again"):
        load([])
