"""A recipe: a site's own parser in YAML, checked whole when it is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jsonschema
import orjson
import yaml

from limpet.kit.errors import LimpetError
from limpet.parser.document import Document
from limpet.parser.parsers import Found, Item, Parser
from limpet.parser.recipes.fields import Field, read_fields
from limpet.parser.recipes.places import Finder, Page, Place, css, json_path, xpath

MAX_BYTES: Final = 256 << 10
MAX_DEPTH: Final = 6
MAX_ITEMS: Final = 5_000
JSON_TYPES: Final = frozenset({"application/json", "application/*+json", "text/json"})
_FINDERS: Final = {"css": css, "xpath": xpath, "jmespath": json_path}


class BadRecipe(LimpetError):
    """A recipe that cannot be used; says which file and which field."""

    def __init__(self, file: str, where: str, why: str) -> None:
        super().__init__(f"{file}: {where}: {why}" if where else f"{file}: {why}")
        self.file, self.where, self.why = file, where, why


@dataclass(frozen=True)
class Recipe:
    name: str
    version: str
    page_type: str
    reads: str
    items: Finder | None
    fields: Mapping[str, Field]

    def extract(self, document: Document) -> list[Item]:
        return self._items(Page(document.url, document=document))

    def read(self, body: bytes, url: str, content_type: str) -> Found:
        return Found(items=self._items(Page(url, value=orjson.loads(body))))

    def _items(self, page: Page) -> list[Item]:
        places: Sequence[Place] = [page] if self.items is None else self.items(page)
        found = (read_fields(self.fields, place, page) for place in places[:MAX_ITEMS])
        return [item for item in found if item is not None]

    def parser(self) -> Parser:
        if self.reads == "json":
            return Parser(self.name, self.version, self.page_type, read=self.read, content_types=JSON_TYPES)
        return Parser(self.name, self.version, self.page_type, extract=self.extract)


def load_recipe(text: str, *, file: str) -> Recipe:
    """Its version is what it declares and a hash of what it says."""
    if len(text) > MAX_BYTES:
        raise BadRecipe(file, "", f"it is larger than {MAX_BYTES >> 10} KB")
    try:
        raw = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader with less
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark is not None else ""
        raise BadRecipe(file, place, str(getattr(error, "problem", None) or error)) from error
    except RecursionError as error:
        raise BadRecipe(file, "", "it is nested too deeply") from error
    _check(raw, file)
    reads = raw.get("reads", "html")
    items_by = next(iter(raw["items"]), "") if "items" in raw else ""
    items = None
    if items_by:
        _check_scope(items_by, "json" if reads == "json" else "page", f"items.{items_by}", file)
        items = _finder(items_by, raw["items"][items_by], f"items.{items_by}", file)
    scope = "json" if reads == "json" else (items_by or "page")
    fields = _fields(raw["fields"], scope, "fields", file, depth=1)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Recipe(
        name=raw["name"],
        version=f"{raw.get('version', '1')}-{digest}",
        page_type=raw.get("page_type", "page"),
        reads=reads,
        items=items,
        fields=fields,
    )


class _Loader(yaml.SafeLoader):
    """Without aliases: a few lines of them can stand for a billion."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "a recipe has no aliases", event.start_mark)
        return super().compose_node(parent, index)


def _check(raw: Any, file: str) -> None:
    problems = sorted(_validator().iter_errors(raw), key=lambda problem: (-len(problem.absolute_path), problem.message))
    if problems:
        problem = problems[0]
        where = ".".join(map(str, problem.absolute_path))
        raise BadRecipe(file, where, problem.message[:300])


@cache
def _validator() -> jsonschema.Draft202012Validator:
    schema = files("limpet.parser.recipes").joinpath("recipe.schema.json").read_bytes()
    return jsonschema.Draft202012Validator(orjson.loads(schema))


def _fields(raw: Mapping[str, Any], scope: str, where: str, file: str, *, depth: int) -> dict[str, Field]:
    if depth > MAX_DEPTH:
        raise BadRecipe(file, where, f"fields are nested more than {MAX_DEPTH} deep")
    return {name: _field(value, scope, f"{where}.{name}", file, depth=depth) for name, value in raw.items()}


def _field(raw: Mapping[str, Any], scope: str, where: str, file: str, *, depth: int) -> Field:
    ways = [way for way in _FINDERS if way in raw]
    if len(ways) > 1:
        raise BadRecipe(file, where, f"it is looked for in one way only, not by {' and '.join(ways)}")
    if not ways and not {"regex", "attribute", "default", "fields"} & set(raw):
        raise BadRecipe(file, where, "it says nowhere where to look: css, xpath, jmespath, attribute, regex or default")
    finders: list[Finder] = []
    inner = scope
    for way in ways:
        _check_scope(way, scope, f"{where}.{way}", file)
        expressions = raw[way] if isinstance(raw[way], list) else [raw[way]]
        finders = [_finder(way, expression, f"{where}.{way}", file) for expression in expressions]
        inner = "json" if way == "jmespath" else way
    nested = _fields(raw["fields"], inner, f"{where}.fields", file, depth=depth + 1) if "fields" in raw else None
    if nested is not None and (extra := {"type", "regex", "attribute", "format"} & set(raw)):
        raise BadRecipe(file, f"{where}.{min(extra)}", "a field with fields of its own has none of its own value")
    if "format" in raw and raw.get("type") != "date":
        raise BadRecipe(file, f"{where}.format", "only a date has one")
    try:
        return Field.of(raw, finders=finders, fields=nested)
    except ValueError as error:
        raise BadRecipe(file, f"{where}.regex", str(error)) from error


def _check_scope(way: str, scope: str, where: str, file: str) -> None:
    allowed = {"page": ("css", "xpath", "jmespath"), "json": ("jmespath",)}.get(scope, (scope,))
    if way not in allowed:
        raise BadRecipe(file, where, f"inside of what {scope} found, only {' or '.join(allowed)} can look")


def _finder(way: str, expression: str, where: str, file: str) -> Finder:
    try:
        return _FINDERS[way](expression)
    except ValueError as error:
        raise BadRecipe(file, where, str(error)) from error
