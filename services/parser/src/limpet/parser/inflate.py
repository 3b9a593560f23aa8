"""A body in pieces, inflated where it is gzip: nothing is held twice, and a bomb ends at the limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

PIECE: Final = 64 << 10
# What sitemaps.org allows for a sitemap.
MAX_DECODED: Final = 50 << 20
GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


class CutShort(ValueError):
    """There is no more to be had, though there should be. What came before it is good."""


def pieces(body: bytes, *, limit: int = MAX_DECODED) -> Iterator[bytes]:
    """Raises CutShort in place of what is missing. Gzip in gzip, as some servers send it, is inflated twice."""
    left = limit
    plain = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
    source = _inflated(plain) if body.startswith(GZIP) else plain
    first = next(source, b"")
    source = _inflated(_chain(first, source)) if first.startswith(GZIP) else _chain(first, source)
    for piece in source:
        yield piece[:left]
        left -= len(piece)
        if left < 0:
            raise CutShort(f"more than {limit >> 20} MB")


def start_of(body: bytes, *, size: int = 4096) -> bytes:
    """The first bytes, or what there is of them."""
    start = b""
    try:
        for piece in pieces(body[: 4 * size] if body.startswith(GZIP) else body[:size], limit=size):
            start += piece
    except CutShort:
        pass
    return start[:size]


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _inflated(source: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    for piece in source:
        waiting = piece
        while waiting:
            if inflater.eof:
                # Members may follow one another; zeros after the last one are padding.
                waiting = waiting.lstrip(b"\x00")
                if not waiting:
                    break
                inflater = zlib.decompressobj(_GZIP_WINDOW)
            try:
                out = inflater.decompress(waiting, PIECE)
            except zlib.error as error:
                raise CutShort(f"broken gzip: {error}") from error
            if out:
                yield out
            waiting = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
    if not inflater.eof:
        raise CutShort("the gzip body ends too early")
