"""Bytes by content: compressed with zstd, named by their SHA-256, kept wherever the URL says."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import zstandard
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from limpet.kit.errors import Permanent, Retryable

MAX_SIZE = 256 << 20


class BlobMissing(Permanent):
    """No bytes are kept under this key."""


class Blobs:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._pack = zstandard.ZstdCompressor(level=1)
        self._unpack = zstandard.ZstdDecompressor()

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
        """Keep the bytes and return their key. The same bytes have the same key, whoever puts them."""
        digest = hashlib.sha256(body).hexdigest()
        key = f"{digest[:2]}/{digest[2:]}.zst"
        try:
            await obstore.put_async(self._store, key, self._pack.compress(body), use_multipart=False)
        except BaseError as error:
            raise Retryable(f"the page store did not take {key}: {error}") from error
        return key

    async def get(self, key: str) -> bytes:
        try:
            found = await obstore.get_async(self._store, key)
            packed = await found.bytes_async()
        except (NotFoundError, FileNotFoundError) as error:
            raise BlobMissing(f"nothing is stored under {key}") from error
        except BaseError as error:
            raise Retryable(f"the page store did not answer for {key}: {error}") from error
        return self._unpack.decompress(bytes(packed), max_output_size=MAX_SIZE)

    async def get_many(self, keys: list[str]) -> list[bytes | Permanent]:
        """In the order of the keys; a missing one is a value, so that it costs only its own page."""

        async def one(key: str) -> bytes | Permanent:
            try:
                return await self.get(key)
            except Permanent as error:
                return error

        return list(await asyncio.gather(*(one(key) for key in keys)))
