"""Rows as JSON lines, CSV or Parquet, piece by piece: an answer may be larger than memory."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import Request

Format = Literal["json", "jsonl", "csv", "parquet"]
Row = Mapping[str, Any]
Pieces = AsyncIterator[Sequence[Row]]

JSON: Final = "application/json"
MEDIA: Final[dict[str, str]] = {
    "json": JSON,
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_ACCEPTED: Final[dict[str, Format]] = {
    JSON: "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
}
# A row group of its own for every piece would make a file that is slow to read.
GROUP: Final = 10_000
_AMOUNT: Final = pa.decimal128(24, 6)
_TIME: Final = pa.timestamp("us", tz="UTC")
TYPES: Final = {
    int: pa.int64(),
    str: pa.string(),
    bool: pa.bool_(),
    Decimal: _AMOUNT,
    datetime: _TIME,
    dict: pa.string(),
}


def wanted_format(request: Request, asked: Format | None) -> Format:
    """`?format=` decides, else the first kind in `Accept` that there is."""
    if asked is not None:
        return asked
    kinds = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return next((_ACCEPTED[kind] for kind in kinds if kind in _ACCEPTED), "json")


def media_types(description: str) -> dict[str, Any]:
    """For the description of an operation: the formats beside JSON."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    text = {"schema": {"type": "string"}}
    return {
        "description": description,
        "content": {MEDIA["jsonl"]: text, MEDIA["csv"]: text, MEDIA["parquet"]: binary},
    }


async def encoded(
    pieces: Pieces, *, form: Format, columns: Mapping[str, type], shape: Callable[[Row], Any]
) -> AsyncIterator[bytes]:
    """`shape` makes of a row what JSON lines show of it; the others show its columns."""
    if form == "parquet":
        async for data in _parquet(pieces, columns):
            yield data
    elif form == "csv":
        yield _csv([list(columns)])
        async for rows in pieces:
            yield _csv([[_cell(row[name]) for name in columns] for row in rows])
    else:
        async for rows in pieces:
            yield b"".join(orjson.dumps(shape(row), option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\r\n").writerows(rows)
    return sink.getvalue().encode()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula is not one."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


async def _parquet(pieces: Pieces, columns: Mapping[str, type]) -> AsyncIterator[bytes]:
    schema = pa.schema([(name, TYPES[kind]) for name, kind in columns.items()])
    sink = _Sink()
    # Bytes go out as they are made: the file's end says where everything is.
    writer = pq.ParquetWriter(sink, schema, compression="zstd")
    waiting: list[Row] = []
    async for rows in pieces:
        waiting += rows
        if len(waiting) >= GROUP:
            await asyncio.to_thread(_write, writer, schema, waiting)
            waiting = []
            yield sink.taken()
    if waiting:
        await asyncio.to_thread(_write, writer, schema, waiting)
    await asyncio.to_thread(writer.close)
    yield sink.taken()


def _write(writer: pq.ParquetWriter, schema: pa.Schema, rows: Sequence[Row]) -> None:
    arrays = [pa.array([_exact(row[field.name]) for row in rows], type=field.type) for field in schema]
    writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _exact(value: Any) -> Any:
    return value.quantize(Decimal("0.000001")) if isinstance(value, Decimal) else value


class _Sink(io.RawIOBase):
    """A file that is read while it is written, and never sought in."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def taken(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data
