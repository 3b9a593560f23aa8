"""What goes between a worker and its keeper: a head in JSON that says how long the parts of the tail are.

No pickle: a worker reads foreign pages with foreign code, and its keeper believes nothing that it could not check.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import orjson

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.announcement import Announcement
from limpet.parser.reading import Reading, Unread
from limpet.parser.recipes.folder import Source

_LENGTHS: Final = Struct("<QQ")
LARGEST: Final = 1 << 30


class Garbled(ValueError):
    """The other side did not speak this protocol."""


class Gone(ConnectionError):
    """The other side has ended."""


@dataclass(frozen=True, slots=True)
class Frame:
    head: Any
    tail: memoryview


@dataclass(frozen=True, slots=True)
class Read:
    """What came of one page: as the keeper stores it, and as the bus takes it."""

    result: Reading | Unread
    announcement: Announcement | None
    started_at: float
    seconds: float


def encoded(head: Any, parts: Sequence[bytes | memoryview] = ()) -> bytes:
    start = orjson.dumps(head)
    return b"".join((_LENGTHS.pack(len(start), sum(map(len, parts))), start, *parts))


def pages_frame(
    chunk: int, pages: Sequence[tuple[PageFetched, bytes]], *, recipes: Sequence[Source] | None = None
) -> bytes:
    """Recipes go along only where they are new to the worker."""
    parts: list[bytes] = []
    for page, body in pages:
        parts += (page.SerializeToString(), body)
    head = {"chunk": chunk, "lengths": [len(part) for part in parts], "recipes": recipes}
    return encoded(head, parts)


def reads_frame(reads: Sequence[Read], *, spent: bool) -> bytes:
    rows: list[Any] = []
    tail: list[bytes] = []
    for read in reads:
        result = read.result
        if isinstance(result, Unread) or read.announcement is None:
            assert isinstance(result, Unread)
            rows.append([read.started_at, read.seconds, result.error, result.trace])
        else:
            parts = [read.announcement.parsed, *read.announcement.links]
            tail += parts
            rows.append([
                read.started_at, read.seconds, result.parser_version, result.page_type, result.title, result.items,
                result.link_count, result.note, [len(part) for part in parts],
            ])  # fmt: skip
    return encoded({"spent": spent, "reads": rows}, tail)


def reads_of(frame: Frame) -> tuple[list[Read], bool]:
    """What a worker says that it read, and whether it wants to be replaced."""
    try:
        place = 0
        reads: list[Read] = []
        for row in frame.head["reads"]:
            if len(row) == 4:
                started_at, seconds, error, trace = row
                reads.append(Read(Unread(error, trace=trace), None, started_at, seconds))
                continue
            started_at, seconds, version, kind, title, items, link_count, note, lengths = row
            parts = cut(frame.tail[place:], lengths)
            place += sum(lengths)
            reading = Reading(version, page_type=kind, title=title, items=items, link_count=link_count, note=note)
            reads.append(Read(reading, Announcement(bytes(parts[0]), [*map(bytes, parts[1:])]), started_at, seconds))
        return reads, bool(frame.head["spent"])
    except (LookupError, TypeError, ValueError) as error:
        raise Garbled(f"a worker answered with something else than what it read: {error!r}") from error


def cut(data: memoryview, lengths: Sequence[int]) -> list[memoryview]:
    parts, place = [], 0
    for length in lengths:
        parts.append(data[place : place + length])
        place += length
    return parts


def receive(sock: socket.socket) -> Frame | None:
    """The worker's side waits; nothing when the keeper is gone."""
    start = _exactly(sock, _LENGTHS.size)
    if start is None:
        return None
    head, tail = _LENGTHS.unpack(start)
    data = _exactly(sock, head + tail)
    return None if data is None else Frame(orjson.loads(data[:head]), data[head:])


def _exactly(sock: socket.socket, size: int) -> memoryview | None:
    data = memoryview(bytearray(size))
    got = 0
    while got < size:
        if not (count := sock.recv_into(data[got:])):
            return None
        got += count
    return data


async def receive_soon(sock: socket.socket) -> Frame:
    """The keeper's side does not wait."""
    head, tail = _LENGTHS.unpack(await _exactly_soon(sock, _LENGTHS.size))
    if head + tail > LARGEST:
        raise Garbled(f"a worker answered with {head + tail} bytes")
    data = await _exactly_soon(sock, head + tail)
    try:
        return Frame(orjson.loads(data[:head]), data[head:])
    except orjson.JSONDecodeError as error:
        raise Garbled(f"a worker answered with something else than JSON: {error}") from error


async def _exactly_soon(sock: socket.socket, size: int) -> memoryview:
    loop = asyncio.get_running_loop()
    data = memoryview(bytearray(size))
    got = 0
    while got < size:
        if not (count := await loop.sock_recv_into(sock, data[got:])):
            raise Gone("the worker has ended")
        got += count
    return data
