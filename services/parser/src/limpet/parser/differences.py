"""What differs between the items that are kept of a page and those that are read from it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

SAMPLES: Final = 5
MAX_FIELDS: Final = 200
_MAX_TEXT: Final = 300
# What tells items of a page apart, where there is not the same number of them.
_NAMES: Final = ("url", "sku", "name", "title")

Item = Mapping[str, Any]


@dataclass(slots=True)
class FieldDifference:
    added: int = 0
    removed: int = 0
    changed: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Differences:
    """Sums over many pages, with a few examples of each field."""

    items_added: int = 0
    items_removed: int = 0
    fields: dict[str, FieldDifference] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> Differences:
        found = orjson.loads(text)
        fields = {name: FieldDifference(**values) for name, values in found.get("fields", {}).items()}
        return cls(found.get("items_added", 0), found.get("items_removed", 0), fields)

    def to_json(self) -> str:
        return orjson.dumps(self).decode()

    def add(self, before: Sequence[str], after: Sequence[str], *, task_id: int, url: str) -> bool:
        """Items as JSON texts. True where anything differs."""
        differs = False
        for old, new in _pairs([orjson.loads(text) for text in before], [orjson.loads(text) for text in after]):
            if old is None or new is None:
                self.items_added += old is None
                self.items_removed += new is None
                differs = True
                continue
            for name in sorted({*old, *new}):
                differs = self._compare(name, old.get(name), new.get(name), task_id=task_id, url=url) or differs
        return differs

    def _compare(self, name: str, old: Any, new: Any, *, task_id: int, url: str) -> bool:
        if old == new or (is_empty(old) and is_empty(new)):
            return False
        name = name[:100]
        if name not in self.fields and len(self.fields) >= MAX_FIELDS:
            return True
        found = self.fields.setdefault(name, FieldDifference())
        if is_empty(old):
            found.added += 1
        elif is_empty(new):
            found.removed += 1
        else:
            found.changed += 1
        if len(found.samples) < SAMPLES:
            found.samples.append({"task_id": task_id, "url": url[:_MAX_TEXT], "before": _cut(old), "after": _cut(new)})
        return True


def is_empty(value: Any) -> bool:
    """0 and false are values."""
    return value is None or value in ("", [], {})


def _pairs(before: Sequence[Item], after: Sequence[Item]) -> Iterator[tuple[Item | None, Item | None]]:
    if len(before) == len(after):
        yield from zip(before, after, strict=True)
        return
    known: dict[Any, list[Item]] = {}
    for item in before:
        known.setdefault(_name(item), []).append(item)
    for item in after:
        twins = known.get(_name(item))
        yield (twins.pop(0) if twins else None), item
    yield from ((item, None) for twins in known.values() for item in twins)


def _name(item: Item) -> tuple[str, ...]:
    return tuple(str(item.get(name)) for name in _NAMES)


def _cut(value: Any) -> Any:
    """Whole where it is short, else the beginning of it as JSON."""
    text = orjson.dumps(value).decode()
    return value if len(text) <= _MAX_TEXT else text[:_MAX_TEXT]
