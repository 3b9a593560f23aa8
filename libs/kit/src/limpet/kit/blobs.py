"""Bytes in packs: each compressed with zstd, many in one object named by its SHA-256, kept wherever the URL says.

An object for each page costs more than fetching the page; a pack costs a tenth of that, on a disk and in a bucket.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import zstandard
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from limpet.kit.errors import Permanent, Retryable

PACK_BYTES = 8 << 20
MAX_SIZE = 256 << 20
_KEY = re.compile(r"([0-9a-f]{2}/[0-9a-f]{62}\.pack)#([0-9]{1,12})\+([0-9]{1,12})")


class BlobMissing(Permanent):
    """No bytes are kept under this key."""


class BlobDamaged(Permanent):
    """What is kept under this key is not what was put there."""


@dataclass
class _Pack:
    """Frames one after the other, each of which can be read alone."""

    frames: list[bytes] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0

    def add(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.spans.append((self.size, len(frame)))
        self.size += len(frame)


class Unpacker:
    """Turns frames back into bytes. Making one takes a fifth of the time of unpacking a page."""

    def __init__(self) -> None:
        self._unpacker = zstandard.ZstdDecompressor()

    def __call__(self, frame: bytes | memoryview, key: str) -> bytes | Permanent:
        try:
            if zstandard.frame_content_size(frame) > MAX_SIZE:
                return BlobDamaged(f"{key} claims to be larger than {MAX_SIZE} bytes")
            return self._unpacker.decompress(frame, max_output_size=MAX_SIZE)
        except zstandard.ZstdError as error:
            return BlobDamaged(f"{key}: {error}")


class Blobs:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def open(cls, url: str) -> Blobs:
        """`file:///folder`, `s3://bucket/prefix`, `gs://…` or `az://…`."""
        parts = urlsplit(url)
        if parts.scheme == "file":
            folder = Path(parts.path)
            folder.mkdir(parents=True, exist_ok=True)
            return cls(LocalStore(folder))
        return cls(from_url(url))

    async def put(self, body: bytes) -> str:
        return (await self.put_many([body]))[0]

    async def put_many(self, bodies: Sequence[bytes]) -> list[str]:
        """Keep the bytes and return their keys, in order. The same bytes put together have the same keys."""
        keys: list[str] = []
        # Hashing and compressing let other threads run, so the event loop goes on meanwhile.
        for name, data, spans in await asyncio.to_thread(_packed, bodies):
            try:
                await obstore.put_async(self._store, name, data, use_multipart=False)
            except (BaseError, OSError) as error:
                raise Retryable(f"the store did not take {name}: {error}") from error
            keys += [f"{name}#{offset}+{length}" for offset, length in spans]
        return keys

    async def get(self, key: str) -> bytes:
        found = (await self.get_many([key]))[0]
        if isinstance(found, Permanent):
            raise found
        return found

    async def get_many(self, keys: Sequence[str]) -> list[bytes | Permanent]:
        """In the order of the keys, one read a pack. A missing one is a value, so that it costs only its own page."""
        unpack = Unpacker()
        frames = await self.get_packed(keys)
        return [
            unpack(frame, key) if isinstance(frame, bytes) else frame for frame, key in zip(frames, keys, strict=True)
        ]

    async def get_packed(self, keys: Sequence[str]) -> list[bytes | Permanent]:
        """As they are kept, for whoever unpacks them somewhere else with an `Unpacker`."""
        found: list[bytes | Permanent] = [BlobMissing(f"{key!r} is not a key") for key in keys]
        packs: dict[str, list[tuple[int, int, int]]] = {}
        for place, key in enumerate(keys):
            if match := _KEY.fullmatch(key):
                packs.setdefault(match[1], []).append((place, int(match[2]), int(match[3])))
        reads = await asyncio.gather(*(self._read(name, spans) for name, spans in packs.items()))
        for spans, frames in zip(packs.values(), reads, strict=True):
            for (place, _, _), frame in zip(spans, frames, strict=True):
                found[place] = frame
        return found

    async def drop(self, packs: Sequence[str]) -> None:
        """Remove whole packs, by the part of their keys before `#`. One that is not there is gone already."""
        for name in packs:
            try:
                await obstore.delete_async(self._store, name)
            except (NotFoundError, FileNotFoundError):
                continue
            except (BaseError, OSError) as error:
                raise Retryable(f"the store did not drop {name}: {error}") from error

    async def _read(self, name: str, spans: Sequence[tuple[int, int, int]]) -> Sequence[bytes | Permanent]:
        starts = [offset for _, offset, _ in spans]
        ends = [offset + length for _, offset, length in spans]
        try:
            parts = await obstore.get_ranges_async(self._store, name, starts=starts, ends=ends)
        except (NotFoundError, FileNotFoundError):
            return [BlobMissing(f"nothing is stored under {name}")] * len(spans)
        except (BaseError, OSError) as error:
            return await self._read_rest(name, spans, error)
        return [bytes(part) for part in parts]

    async def _read_rest(
        self, name: str, spans: Sequence[tuple[int, int, int]], error: Exception
    ) -> Sequence[bytes | Permanent]:
        """A pack can have lost its end, as after a power cut: what is left of it is still good."""
        try:
            size = (await obstore.head_async(self._store, name))["size"]
        except (BaseError, OSError):
            size = sys.maxsize
        inside = [span for span in spans if span[1] + span[2] <= size]
        if len(inside) == len(spans):
            raise Retryable(f"the store did not answer for {name}: {error}") from error
        left = iter(await self._read(name, inside) if inside else ())
        return [next(left) if span in inside else BlobDamaged(f"{name} was cut off") for span in spans]


def _packed(bodies: Sequence[bytes]) -> list[tuple[str, bytes, list[tuple[int, int]]]]:
    packs = [_Pack()]
    for frame in _frames(bodies):
        if packs[-1].frames and packs[-1].size + len(frame) > PACK_BYTES:
            packs.append(_Pack())
        packs[-1].add(frame)
    made = []
    for pack in packs:
        data = b"".join(pack.frames)
        digest = hashlib.sha256(data).hexdigest()
        made.append((f"{digest[:2]}/{digest[2:]}.pack", data, pack.spans))
    return made if bodies else []


def _frames(bodies: Sequence[bytes]) -> list[bytes]:
    packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
    if not any(bodies):
        return [packer.compress(body) for body in bodies]  # the call below refuses what is all empty
    # One call for all: between two of them this thread and the event loop would hand the interpreter to and fro.
    frames = packer.multi_compress_to_buffer(list(bodies))
    return [frames[place].tobytes() for place in range(len(bodies))]
