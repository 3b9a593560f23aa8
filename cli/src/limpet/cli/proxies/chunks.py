"""A long list in parts, so that each is answered soon and the way can be shown."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

LINES_AT_ONCE: Final = 2000


@dataclass(frozen=True)
class Chunk:
    """A part of the list. A line that the platform calls n is line n + `offset` of the whole."""

    text: str
    lines: int
    offset: int


def plain_chunks(text: str) -> Iterator[Chunk]:
    lines = text.split("\n")
    for start in range(0, len(lines), LINES_AT_ONCE):
        part = lines[start : start + LINES_AT_ONCE]
        yield Chunk("\n".join(part), len(part), start)


def csv_chunks(text: str) -> Iterator[Chunk]:
    """Each part has the header; a cell that goes over several lines is not cut."""
    lines = text.split("\n")
    rows = csv.reader(line + "\n" for line in lines)
    next(rows, None)
    header = lines[: rows.line_num]
    start = rows.line_num
    for _ in rows:
        if rows.line_num - start >= LINES_AT_ONCE:
            yield _under(header, lines, start, rows.line_num)
            start = rows.line_num
    if start < len(lines) or start == len(header):
        yield _under(header, lines, start, len(lines))


def _under(header: list[str], lines: list[str], start: int, end: int) -> Chunk:
    return Chunk("\n".join([*header, *lines[start:end]]), end - start, start - len(header))
