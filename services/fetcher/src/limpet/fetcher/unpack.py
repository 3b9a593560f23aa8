"""Unpack a body piece by piece, so that a bomb is stopped at the cap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from aiohttp import StreamReader
from aiohttp.http_exceptions import ContentEncodingError
from aiohttp.http_parser import DeflateBuffer

PIECE = 1 << 16
_KNOWN = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate", "br": "br", "zstd": "zstd"}


class _Out:
    """All that aiohttp's own unpacking asks of whoever takes what it has unpacked."""

    _low_water = 0
    total_compressed_bytes = 0

    def __init__(self) -> None:
        self.piece = b""

    def feed_data(self, piece: bytes, _size: int = 0) -> None:
        self.piece = piece


class Unpacker:
    """What it does not know passes as it is."""

    def __init__(self, coding: str) -> None:
        self._coding = _KNOWN.get(coding.strip().lower(), "")
        self._out = _Out()
        self._buffer = (
            DeflateBuffer(cast("StreamReader", self._out), self._coding, max_decompress_size=PIECE)
            if self._coding
            else None
        )

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Raises ValueError where these bytes are not what the site calls them."""
        if self._buffer is None:
            yield chunk
            return
        more = True
        while more:
            self._out.piece = b""
            try:
                more = self._buffer.feed_data(chunk, len(chunk))
            except ContentEncodingError as error:
                raise ValueError(f"the body is not {self._coding}") from error
            chunk = b""
            yield self._out.piece
