"""A few bytes that a worker and its keeper share: the worker notes where it is, the keeper reads it after any death.

Writing them costs no system call. Behind them the worker leaves the traceback that it dies with.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from struct import Struct
from typing import Final

_PLACE: Final = Struct("<QIdd")
_CUT: Final = Struct("<Q")
_CUT_AT: Final = 256
_SIZE: Final = 4096
TRACE_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Place:
    """The page that a worker is at, and what the clocks showed when it began with it."""

    chunk: int
    index: int
    began: float
    cpu: float


class Slate:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._bytes = mmap.mmap(fd, _SIZE)

    @classmethod
    def new(cls) -> Slate:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("limpet-slate", os.MFD_CLOEXEC)
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, _SIZE)
        os.lseek(fd, _SIZE, os.SEEK_SET)
        return cls(fd)

    def note(self, place: Place) -> None:
        _PLACE.pack_into(self._bytes, 0, place.chunk, place.index, place.began, place.cpu)

    def read(self) -> Place:
        return Place(*_PLACE.unpack_from(self._bytes, 0))

    def cut(self, chunk: int) -> None:
        """Nothing after the page that is being read now: the others go to somebody else."""
        _CUT.pack_into(self._bytes, _CUT_AT, chunk)

    def is_cut(self, chunk: int) -> bool:
        found: int = _CUT.unpack_from(self._bytes, _CUT_AT)[0]
        return found == chunk

    def trace(self) -> str:
        return os.pread(self.fd, TRACE_BYTES, _SIZE).decode("utf-8", "replace").strip("\x00\n ")

    def close(self) -> None:
        self._bytes.close()
        os.close(self.fd)
