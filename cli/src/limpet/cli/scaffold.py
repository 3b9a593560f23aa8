"""A first recipe for a page, from what the page says of itself, and a test that keeps what it reads."""

from __future__ import annotations

import json
import re
from typing import Final

from limpet.cli.errors import WrongInput
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.reading import Unread, read_page
from limpet.parser.recipes.recipe import BadRecipe, load_recipe

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_HEAD: Final = """\
# Recipe for {site}. docs/parsers.md lists all that it can hold; `limpet parser check` says whether it is right.
name: {site}
version: 1
page_type: {page_type}
# For a page with many items, say where each of them is, and every field looks inside of it:
# items: {{css: ".product-card"}}
fields:
"""
_PRODUCT: Final = """\
  # What the page says in JSON-LD is more stable than how it looks.
  name: {jmespath: "[?\\"@type\\"=='Product'].name | [0]", required: true}
  sku: {jmespath: "[?\\"@type\\"=='Product'].sku | [0]"}
  brand: {jmespath: "[?\\"@type\\"=='Product'].brand.name | [0]"}
  price: {jmespath: "[?\\"@type\\"=='Product'].[offers.price, offers[0].price][] | [0]", type: price}
  currency: {jmespath: "[?\\"@type\\"=='Product'].[offers.priceCurrency, offers[0].priceCurrency][] | [0]"}
"""
_PAGE: Final = """\
  title: {css: [h1, title], required: true}
  description: {css: 'meta[name="description"]', attribute: content}
  image: {css: 'meta[property="og:image"]', attribute: content, type: url}
  # price: {css: .price, type: price}
  # published: {css: time, attribute: datetime, type: date}
"""
_TEST: Final = '''\
"""The recipe of {site} still reads its saved page as it did."""

import json
from pathlib import Path

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.reading import Reading, read_page
from limpet.parser.recipes.recipe import load_recipe

HERE = Path(__file__).parent
ITEMS = json.loads(
    """
{items}
"""
)


def test_{function}_reads_its_saved_page():
    file = HERE / "{site}.yaml"
    parser = load_recipe(file.read_text(), file=file.name).parser()
    page = PageFetched(url={url}, parser=parser.name, content_type="text/html")
    reading = read_page(page, (HERE / "{site}.html").read_bytes(), parsers={{parser.name: parser}})
    assert isinstance(reading, Reading), reading
    assert [json.loads(item) for item in reading.items] == ITEMS
'''


def scaffold(site: str, body: bytes, *, url: str) -> dict[str, bytes]:
    """Files by name: the recipe, the page, the test."""
    if not _NAME.fullmatch(site):
        raise WrongInput(f"{site!r} is no name for a recipe.", hint="Lower-case letters, digits, - and _.")
    for page_type, fields in (("product", _PRODUCT), ("page", _PAGE)):
        recipe = _HEAD.format(site=site, page_type=page_type) + fields
        if items := _items(recipe, body, site=site, url=url):
            break
    else:
        raise WrongInput(
            "The page has neither a product nor a heading to begin with.", hint="Is it a page of the site?"
        )
    shown = json.dumps(items, ensure_ascii=True, indent=2).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    test = _TEST.format(site=site, function=site.replace("-", "_"), url=json.dumps(url), items=shown)
    return {f"{site}.yaml": recipe.encode(), f"{site}.html": body, f"test_{site.replace('-', '_')}.py": test.encode()}


def _items(recipe: str, body: bytes, *, site: str, url: str) -> list[object]:
    try:
        parser = load_recipe(recipe, file=f"{site}.yaml").parser()
    except BadRecipe as error:
        raise WrongInput(f"{error}.") from error
    page = PageFetched(url=url, parser=site, content_type="text/html")
    found = read_page(page, body, parsers={site: parser})
    if isinstance(found, Unread):
        raise WrongInput(f"The page cannot be read: {found.error}.")
    return [json.loads(item) for item in found.items]
