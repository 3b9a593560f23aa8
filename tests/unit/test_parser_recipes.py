"""P1: recipes. What they extract, what is refused with its file and field, how a folder of them is followed."""

from __future__ import annotations

import os
import time
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import orjson
import pytest

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.keys import Keys
from limpet.kit.rest import make_app
from limpet.parser.api.parsers import parsers_router
from limpet.parser.reading import Reading, Unread, read_page
from limpet.parser.recipes.folder import RecipeFolder, compiled
from limpet.parser.recipes.recipe import BadRecipe, load_recipe

URL = "https://shop.test/list/1"
KEY = "reader"
HTML = b"""<title>Boots</title><h1 data-id=77> Boots  &amp; more </h1>
<script type=application/ld+json>{"@graph": [{"@type": "Product", "name": "B", "sku": 12, "offers": [{"price": 9.5}]}]}</script>
<script>var shop = {stock: 42};</script>
<div class=card><a href=/p/1>One</a><span class=price>From 1.299,00 \xe2\x82\xac</span><img src=a.jpg><img src=b.jpg></div>
<div class=card><a href=/p/2>Two</a><span class=price>$5</span><time datetime=2026-01-02T03:04:05Z></time><i class=new>yes</i></div>
<div class=card><span class=price>nameless</span></div>
<table><tr><th>Size</th><td>41</td></tr><tr><th>Colour</th><td>red</td></tr></table>
"""


def recipe(text: str) -> str:
    return dedent(text)


def read(text: str, body: bytes = HTML, content_type: str = "text/html") -> list[dict[str, Any]]:
    parser = load_recipe(recipe(text), file="r.yaml").parser()
    page = PageFetched(url=URL, parser=parser.name, content_type=content_type)
    found = read_page(page, body, parsers={parser.name: parser})
    assert isinstance(found, Reading), found
    return [orjson.loads(item) for item in found.items]


def one(field: str, body: bytes = HTML) -> Any:
    """The value of one field, with another that is always there."""
    return read(f"name: x\nfields:\n  there: {{css: h1}}\n  it: {field}", body)[0]["it"]


def test_p1_a_recipe_reads_a_list_of_items() -> None:
    assert read("""
        name: shop
        page_type: product
        items: {css: .card}
        fields:
          name: {css: a, required: true}
          url: {css: a, attribute: href, type: url}
          price: {css: .price, type: price}
          currency: {css: .price, type: currency}
          images: {css: img, attribute: src, type: url, list: true}
          seen: {css: time, attribute: datetime, type: date}
          new: {css: .new, type: boolean, default: false}
    """) == [
        {
            "name": "One", "url": "https://shop.test/p/1", "price": "1299.00", "currency": "EUR", "seen": None, "new": False,
            "images": ["https://shop.test/list/a.jpg", "https://shop.test/list/b.jpg"],
        },
        {
            "name": "Two", "url": "https://shop.test/p/2", "price": "5", "currency": "USD", "images": [], "new": True,
            "seen": "2026-01-02T03:04:05+00:00",
        },
    ]  # fmt: skip


def test_p1_fields_nest() -> None:
    field = "{css: tr, list: true, fields: {name: {css: th}, value: {css: td}}}"
    assert one(field) == [{"name": "Size", "value": "41"}, {"name": "Colour", "value": "red"}]
    assert one("{xpath: //tr, list: true, fields: {value: {xpath: ./td}}}") == [{"value": "41"}, {"value": "red"}]
    assert one("{jmespath: '[0].offers', fields: {price: {jmespath: price, type: decimal}}}") == {"price": "9.5"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("{css: h1}", "Boots & more"),
        ("{css: h1, attribute: data-id, type: integer}", 77),
        ("{css: [h9, h1]}", "Boots & more"),
        ("{css: h9}", None),
        ("{css: h9, default: none}", "none"),
        ("{css: h9, list: true}", []),
        ("{default: shop}", "shop"),
        ("{css: i, type: html}", "<i class=\"new\">yes</i>"),
        ("{xpath: //h1/@data-id, type: integer}", 77),
        ("{xpath: 'count(//tr)', type: integer}", 2),
        ("{xpath: //th, list: true}", ["Size", "Colour"]),
        ("{jmespath: \"[?\\\"@type\\\"=='Product'].name | [0]\"}", "B"),
        ("{jmespath: '[0].sku', type: integer}", 12),
        ("{jmespath: '[0].nothing'}", None),
        ("{jmespath: 'length([0].sku)'}", None),
        ("{regex: 'stock: (\\d+)', type: integer}", 42),
        ("{css: .price, regex: '[0-9.]+,[0-9]+', type: price}", "1299.00"),
        ("{css: h1, regex: nothing}", None),
        ("{css: td, type: decimal}", "41"),
        ("{css: td, list: true, type: integer}", [41]),
        ("{css: h1, type: date}", None),
    ],
)  # fmt: skip
def test_p1_a_field_is_found_in_each_way(field: str, value: Any) -> None:
    assert one(field) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "1.234 pieces", 1234),
        ("integer", "-5", -5),
        ("integer", "many", None),
        ("decimal", "4,5 of 5", "4.5"),
        ("decimal", "-3.25", "-3.25"),
        ("decimal", "none", None),
        ("price", "EUR 1,299.50", "1299.50"),
        ("price", "call us", None),
        ("currency", "12 GBP", "GBP"),
        ("currency", "12 £", "GBP"),
        ("currency", "12", None),
        ("boolean", "No", False),
        ("boolean", "in stock", True),
        ("url", "javascript:x()", None),
        ("url", "//cdn.test/a", "https://cdn.test/a"),
        ("url", "http://[bad", None),
        ("date", "2026-05-06", "2026-05-06T00:00:00"),
        ("date", "Wed, 06 May 2026 10:00:00 GMT", "2026-05-06T10:00:00+00:00"),
        ("date, format: '%d.%m.%Y'", "06.05.2026", "2026-05-06T00:00:00"),
        ("date, format: '%d.%m.%Y'", "2026-05-06", None),
    ],
)
def test_p1_text_becomes_what_its_type_says_or_nothing(kind: str, text: str, value: Any) -> None:
    assert one(f"{{css: p, type: {kind}}}", f"<h1>x</h1><p>{text}</p>".encode()) == value


def test_p1_a_recipe_reads_json_bodies() -> None:
    text = """
        name: api
        reads: json
        items: {jmespath: "data.products"}
        fields:
          name: {jmespath: title, required: true}
          price: {jmespath: "price.amount", type: decimal}
          tags: {jmespath: tags, list: true}
    """
    body = orjson.dumps(
        {"data": {"products": [{"title": "A", "price": {"amount": 9.5}, "tags": ["x", "y"]}, {"tags": ["z"]}]}}
    )
    assert read(text, body, "application/json") == [{"name": "A", "price": "9.5", "tags": ["x", "y"]}]
    assert read(text, b"no json", "image/png") == []
    parser = load_recipe(recipe(text), file="r.yaml").parser()
    page = PageFetched(url=URL, parser="api", content_type="application/json")
    assert isinstance(read_page(page, b"{broken", parsers={"api": parser}), Unread)


def test_p1_an_expression_that_would_backtrack_for_ever_takes_linear_time() -> None:
    body = b"<h1>x</h1><p>" + b"a" * 50_000 + b"</p>"
    began = time.process_time()
    assert one("{css: p, regex: '(a+)+$'}", body[:-4] + b"b</p>") is None
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("fields: {a: {css: b}}", "", "'name' is a required property"),
        ("name: x", "", "'fields' is a required property"),
        ("name: Bad Name\nfields: {a: {css: b}}", "name", "does not match"),
        ("name: x\nfields: {}", "fields", "non-empty"),
        ("name: x\nfields: {a: {css: b, typ: text}}", "fields.a", "'typ' was unexpected"),
        ("name: x\nfields: {a: {css: b, type: money}}", "fields.a.type", "'money' is not one of"),
        ("name: x\nfields: {a: {css: 'b['}}", "fields.a.css", "no CSS selector"),
        ("name: x\nfields: {a: {css: [b, 'b[']}}", "fields.a.css", "no CSS selector"),
        ("name: x\nfields: {a: {xpath: '//b['}}", "fields.a.xpath", "no XPath"),
        ("name: x\nfields: {a: {jmespath: 'b['}}", "fields.a.jmespath", "no JMESPath"),
        ("name: x\nfields: {a: {css: b, regex: '(b'}}", "fields.a.regex", "no regular expression (RE2): missing )"),
        ("name: x\nfields: {a: {css: b, regex: '(?<=b)c'}}", "fields.a.regex", "no regular expression"),
        ("name: x\nfields: {a: {css: b, xpath: //b}}", "fields.a", "in one way only, not by css and xpath"),
        ("name: x\nfields: {a: {type: text}}", "fields.a", "nowhere where to look"),
        ("name: x\nitems: {css: b}\nfields: {a: {xpath: //b}}", "fields.a.xpath", "inside of what css found"),
        ("name: x\nreads: json\nfields: {a: {css: b}}", "fields.a.css", "only jmespath can look"),
        ("name: x\nitems: {css: 'b['}\nfields: {a: {css: b}}", "items.css", "no CSS selector"),
        ("name: x\nfields: {a: {css: b, type: text, fields: {c: {css: d}}}}", "fields.a.type", "fields of its own"),
        ("name: x\nfields: {a: {css: b, fields: {c: {css: 'd['}}}}", "fields.a.fields.c.css", "no CSS selector"),
        ("name: x\nfields: {a: {css: b, format: '%Y'}}", "fields.a.format", "only a date"),
        ("name: [x", "line 1", "expected"),
        ("name: x\nfields: &f {a: {css: b, fields: *f}}", "line 2", "no aliases"),
        ("- a", "", "is not of type 'object'"),
        ("name: !!python/object:os.system x", "line 1", "could not determine a constructor"),
        ("[" * 3000, "", ""),
        ("# " + "x" * 300_000, "", "larger than 256 KB"),
    ],
)  # fmt: skip
def test_p1_a_wrong_recipe_is_refused_with_its_file_and_field(text: str, where: str, why: str) -> None:
    with pytest.raises(BadRecipe) as caught:
        load_recipe(text, file="shop.yaml")
    assert (caught.value.file, caught.value.where) == ("shop.yaml", where) or not where
    assert why in str(caught.value)
    assert str(caught.value).startswith("shop.yaml: ")


def test_p1_the_version_of_a_recipe_is_what_it_declares_and_what_it_says() -> None:
    first = load_recipe("name: x\nversion: 3\nfields: {a: {css: b}}", file="x").version
    assert first.startswith("3-")
    assert first == load_recipe("name: x\nversion: 3\nfields: {a: {css: b}}", file="y").version
    assert first != load_recipe("name: x\nversion: 3\nfields: {a: {css: c}}", file="x").version


# A folder that changes.


def write(path: Path, css: str, *, name: str = "shop") -> None:
    path.write_text(f"name: {name}\nfields: {{title: {{css: {css}}}}}\n")
    # Two writes within the clock's grain differ all the same.
    os.utime(path, ns=(time.time_ns(), time.time_ns()))


def title(folder: RecipeFolder, key: str = "shop") -> str:
    page = PageFetched(url=URL, parser=key, content_type="text/html")
    found = read_page(page, b"<h1>one</h1><h2>two</h2>", parsers=compiled(folder.sources))
    assert isinstance(found, Reading), found
    return str(orjson.loads(found.items[0])["title"])


def test_p1_a_recipe_that_changes_is_loaded_again(tmp_path: Path) -> None:
    write(tmp_path / "shop.yaml", "h1")
    folder = RecipeFolder(tmp_path)
    before = folder.sources
    assert title(folder) == "one"
    folder.look()
    assert folder.sources is before
    write(tmp_path / "shop.yaml", "h2")
    folder.look()
    assert title(folder) == "two"
    # The version before can still be asked for.
    (earlier,) = [source.key for source in folder.sources if source.key != "shop"]
    assert title(folder, earlier) == "one"
    (tmp_path / "shop.yaml").unlink()
    folder.look()
    assert folder.sources == ()


def test_p1_a_configmap_that_swaps_its_folder_is_seen(tmp_path: Path) -> None:
    for number, css in ((1, "h1"), (2, "h2")):
        (tmp_path / f"..{number}").mkdir()
        write(tmp_path / f"..{number}" / "shop.yaml", css)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "shop.yaml").symlink_to("..data/shop.yaml")
    folder = RecipeFolder(tmp_path)
    assert title(folder) == "one"
    (tmp_path / "..tmp").symlink_to("..2")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    folder.look()
    assert title(folder) == "two"


async def shown(folder: RecipeFolder) -> dict[str, dict[str, Any]]:
    app = make_app("x", Keys.parse(f"read:{sha256(KEY.encode()).hexdigest()}"))
    app.include_router(parsers_router(folder))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://parser") as client:
        assert (await client.get("/api/admin/parsers")).status_code == 401
        answer = await client.get("/api/admin/parsers", headers={"Authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200
    return {item["file"] or item["name"]: item for item in answer.json()["items"]}


async def test_p1_a_broken_new_version_keeps_the_old_one_and_says_so(tmp_path: Path) -> None:
    write(tmp_path / "shop.yaml", "h1")
    folder = RecipeFolder(tmp_path)
    version = (await shown(folder))["shop.yaml"]["version"]
    write(tmp_path / "shop.yaml", "'h2['")
    folder.look()
    assert title(folder) == "one"
    listed = (await shown(folder))["shop.yaml"]
    assert (listed["state"], listed["version"]) == ("outdated", version)
    assert listed["error"] == "shop.yaml: fields.title.css: 'h2[' is no CSS selector"
    write(tmp_path / "shop.yaml", "h2")
    folder.look()
    assert title(folder) == "two"
    assert (await shown(folder))["shop.yaml"]["state"] == "ready"


async def test_p1_all_parsers_are_listed(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "'h1['")
    (tmp_path / "b.yml").write_bytes(b"\xff\xfe")
    listed = await shown(RecipeFolder(tmp_path))
    assert listed["generic"]["source"] == "installed"
    assert {listed["a.yaml"]["state"], listed["b.yml"]["state"]} == {"refused"}


async def test_p1_a_name_that_is_taken_is_refused_until_it_is_free(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "h1")
    write(tmp_path / "b.yaml", "h2")
    write(tmp_path / "c.yaml", "h2", name="generic")
    folder = RecipeFolder(tmp_path)
    assert title(folder) == "one"
    listed = await shown(folder)
    assert "is the name of the recipe in a.yaml already" in listed["b.yaml"]["error"]
    assert "is the name of an installed parser" in listed["c.yaml"]["error"]
    (tmp_path / "a.yaml").unlink()
    folder.look()
    assert title(folder) == "two"


def test_a_folder_that_is_not_there_yet_is_no_trouble(tmp_path: Path) -> None:
    folder = RecipeFolder(tmp_path / "later")
    assert folder.sources == ()
    (tmp_path / "later").mkdir()
    write(tmp_path / "later" / "shop.yaml", "h1")
    folder.look()
    assert title(folder) == "one"
