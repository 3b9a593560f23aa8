"""One worker: reads the pages that it is given, one after the other, within its own memory, until its keeper is gone."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import Final

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.blobs import Unpacker
from limpet.parser.announcement import announcement
from limpet.parser.parsers import Parser
from limpet.parser.parsers.registry import installed
from limpet.parser.reading import Unread, read_page, unread
from limpet.parser.recipes.folder import Source, compiled
from limpet.parser.workers.slate import Place, Slate
from limpet.parser.workers.wire import Frame, Read, cut, reads_frame, receive

_PR_SET_PDEATHSIG: Final = 1
_PAGE: Final = resource.getpagesize()


def tie_to(parent: int) -> None:
    """Die with the parent, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        # It died before the tie was made.
        os._exit(0)


def work(sock: socket.socket, slate: Slate, *, memory_mb: int) -> None:
    # A group of its own, so that whatever foreign code starts ends with it.
    os.setpgid(0, 0)
    _confine(memory_mb)
    faulthandler.enable(slate.fd, all_threads=False)
    worker = _Worker(slate, memory_mb=memory_mb)
    while (frame := receive(sock)) is not None:
        sock.sendall(worker.answer(frame))


def _confine(memory_mb: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:  # noqa: PTH123 - a few thousand times faster to import than pathlib is to use
            taken = int(file.read().split()[0]) * _PAGE
        resource.setrlimit(resource.RLIMIT_AS, (taken + (memory_mb << 20),) * 2)


class _Worker:
    def __init__(self, slate: Slate, *, memory_mb: int) -> None:
        self._slate = slate
        self._memory_mb = memory_mb
        self._unpack = Unpacker()
        self._parsers: Mapping[str, Parser] = installed()
        self._peak_at_first = _peak()

    def answer(self, frame: Frame) -> bytes:
        if (recipes := frame.head["recipes"]) is not None:
            self._parsers = {**installed(), **compiled([Source(**recipe) for recipe in recipes])}
        chunk, parts = frame.head["chunk"], cut(frame.tail, frame.head["lengths"])
        reads: list[Read] = []
        for index in range(0, len(parts), 2):
            if self._slate.is_cut(chunk):
                break
            self._slate.note(Place(chunk, index // 2, time.monotonic(), time.process_time()))
            reads.append(self._read(PageFetched.FromString(bytes(parts[index])), parts[index + 1]))
        try:
            return reads_frame(reads, spent=self._is_spent())
        except (TypeError, ValueError) as error:
            # Text that cannot be sent, such as half a surrogate pair: one page has it, the others do not pay for it.
            return reads_frame([_sendable(read, error) for read in reads], spent=self._is_spent())

    def _read(self, page: PageFetched, frame: memoryview) -> Read:
        started_at, began = time.time(), time.perf_counter()
        told = None
        try:
            body = self._unpack(frame, page.body_key)
            result = read_page(page, body, parsers=self._parsers) if isinstance(body, bytes) else unread(body)
            if not isinstance(result, Unread):
                seconds = time.perf_counter() - began
                told = announcement(page, result, started_at=started_at, seconds=seconds)
        except MemoryError as error:
            result = unread(error)
        except (Exception, SystemExit) as error:
            # Whatever foreign code raises; this process is where it runs, so that it costs one page.
            result = unread(error)
        if isinstance(result, Unread) and (result.error.startswith("MemoryError") or self._is_spent()):
            # A library says so in words of its own, or in none.
            gc.collect()
            result = Unread(
                f"reading it took more than {self._memory_mb} MB of memory: {result.error}", trace=result.trace
            )
        return Read(result, told, started_at, time.perf_counter() - began)

    def _is_spent(self) -> bool:
        """A page that took much leaves less for those after it; a new process costs less than finding out how much."""
        return _peak() - self._peak_at_first > self._memory_mb << 19


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _sendable(read: Read, error: Exception) -> Read:
    try:
        reads_frame([read], spent=False)
    except (TypeError, ValueError):
        return Read(unread(error), None, read.started_at, read.seconds)
    return read
