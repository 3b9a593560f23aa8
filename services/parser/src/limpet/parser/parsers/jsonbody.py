"""Answers in JSON: the objects of the list that such an answer carries, each as it is."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import orjson

from limpet.parser.parsers import Found, Parser

MAX_BYTES: Final = 32 << 20
MAX_ITEMS: Final = 10_000
MAX_ITEM_BYTES: Final = 256 << 10
MAX_ALL_BYTES: Final = 16 << 20
# How far below the top the list may lie, and how much is looked at to find it.
_DEEPEST: Final = 8
_LOOKED_AT: Final = 20_000
_ITEM_DEPTH: Final = 60
_TYPES: Final = frozenset(
    {
        "application/json",
        "text/json",
        "application/*+json",
        "application/x-ndjson",
        "application/jsonl",
        "application/ndjson",
    }
)


def read(body: bytes, url: str, content_type: str) -> Found:
    if len(body) > MAX_BYTES:
        raise ValueError(f"a JSON body of more than {MAX_BYTES} bytes")
    objects = list_of_objects(_value(body))
    items: list[dict[str, Any]] = []
    room = MAX_ALL_BYTES
    for one in objects[:MAX_ITEMS]:
        item = _storable(one, depth=0)
        size = len(orjson.dumps(item))
        room -= size
        if room < 0:
            break
        if size <= MAX_ITEM_BYTES:
            items.append(item)
    return Found(items=items, page_type="listing" if len(items) != 1 else "page")


def _value(body: bytes) -> Any:
    try:
        return orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        trouble = str(error)
    text = body.decode(json.detect_encoding(body), "replace").lstrip("\ufeff").strip()
    try:
        return json.loads(text, strict=False, parse_constant=lambda _: None, parse_int=_integer)
    except (ValueError, RecursionError):
        pass
    lines = [line for line in text.splitlines()[: MAX_ITEMS * 2] if line.strip()]
    try:
        # One value a line; a list of one is what was tried above.
        if len(lines) > 1:
            return [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError:
        pass
    raise ValueError(f"no JSON: {trouble}")


def _integer(digits: str) -> int | float | None:
    if len(digits) < 19:
        return int(digits)
    return None if len(digits) > 300 or math.isinf(number := float(digits)) else number


def list_of_objects(value: Any) -> list[dict[str, Any]]:
    """The value itself if it is one, else the largest inside; of equals the outermost. An object without any is the one."""
    largest: list[dict[str, Any]] = []
    level, looked_at = [value], 0
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for node in level:
            looked_at += 1
            if looked_at > _LOOKED_AT:
                break
            if isinstance(node, list):
                objects = [one for one in node if isinstance(one, dict)]
                if len(objects) > len(largest):
                    largest = objects
                # The parts of what was listed are parts, not items.
                if not objects:
                    below.extend(node[:_LOOKED_AT])
            elif isinstance(node, dict):
                below.extend(one for one in node.values() if isinstance(one, (dict, list)))
        level = below
    return largest or ([value] if isinstance(value, dict) and value else [])


def _storable(value: Any, *, depth: int) -> Any:
    """Without what PostgreSQL and JSON refuse: NUL, half characters, numbers without end, nesting without end."""
    if isinstance(value, str):
        if value.isascii():
            return value.replace("\x00", "") if "\x00" in value else value
        return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        if depth >= _ITEM_DEPTH:
            return None
        return {_storable(key, depth=depth): _storable(one, depth=depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_storable(one, depth=depth + 1) for one in value] if depth < _ITEM_DEPTH else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


PARSER: Final = Parser(name="json", version="1", page_type="page", read=read, content_types=_TYPES)
