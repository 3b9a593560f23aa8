"""One field of a recipe, compiled: where to look, what to take, what to make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from limpet.parser.parsers import Item
from limpet.parser.recipes import values
from limpet.parser.recipes.places import Finder, Place, content, pattern

MAX_LIST: Final = 1_000


@dataclass(frozen=True)
class Field:
    # Tried in order; the first that finds something counts. None means the place itself.
    finders: Sequence[Finder]
    attribute: str
    search: Callable[[str], str | None] | None
    convert: Callable[[Any, str], Any]
    as_html: bool
    default: Any
    required: bool
    many: bool
    fields: Mapping[str, Field] | None

    @classmethod
    def of(cls, raw: Mapping[str, Any], *, finders: Sequence[Finder], fields: Mapping[str, Field] | None) -> Field:
        kind = raw.get("type", "text")
        return cls(
            finders=finders,
            attribute=raw.get("attribute", ""),
            search=pattern(raw["regex"]) if "regex" in raw else None,
            convert=values.date(raw.get("format", "")) if kind == "date" else values.TYPES[kind],
            as_html=kind == "html",
            default=raw.get("default", [] if raw.get("list") else None),
            required=raw.get("required", False),
            many=raw.get("list", False),
            fields=fields,
        )

    def read(self, place: Place, page: Place) -> Any:
        """The value, the default where there is none."""
        found: list[Any] = []
        for one in self._places(place):
            value = self._value(one, page)
            if value is not None:
                found.append(value)
                if not self.many or len(found) >= MAX_LIST:
                    break
        if not found:
            return self.default
        return found if self.many else found[0]

    def _places(self, place: Place) -> Sequence[Place]:
        if not self.finders:
            return [place]
        for find in self.finders:
            if found := find(place):
                return found
        return []

    def _value(self, place: Place, page: Place) -> Any:
        if self.fields is not None:
            return read_fields(self.fields, place, page)
        if not self.finders and not self.attribute:
            # A pattern alone looks at all that the place says; a default alone looks nowhere.
            found: Any = place.source if self.search is not None else None
        else:
            found = content(place, self.attribute, as_html=self.as_html)
        if self.search is not None and found is not None:
            found = self.search(found if isinstance(found, str) else str(found))
        return None if found is None else self.convert(found, page.url)


def read_fields(fields: Mapping[str, Field], place: Place, page: Place) -> Item | None:
    """Nothing where something that is required is missing, or where nothing was found at all."""
    item: Item = {}
    found = False
    for name, field in fields.items():
        value = field.read(place, page)
        if field.required and value in (None, []):
            return None
        found = found or value != field.default
        item[name] = value
    return item if found else None
