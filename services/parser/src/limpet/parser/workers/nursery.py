"""The keeper's side of the zygote: workers are asked for here, and here it is heard how they ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import orjson
import psutil

from limpet.kit.errors import LimpetError
from limpet.parser.workers.slate import Slate
from limpet.parser.workers.zygote import MESSAGE

START_SECONDS = 60.0
END_SECONDS = 2.0
_KEPT = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH"})


class NoWorkers(LimpetError):
    """The process that workers come from has ended; the service cannot read pages without it."""


@dataclass
class Worker:
    pid: int
    sock: socket.socket
    slate: Slate
    memory_at_first: int
    # Its exit code; negative is the signal that ended it.
    ended: asyncio.Future[int] = field(repr=False)
    used: bool = False
    # The recipes that it has, by identity.
    recipes: object = None

    def kill(self, number: signal.Signals) -> None:
        if not self.ended.done():
            # It may not have its own group yet, or no longer.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)
            if number == signal.SIGKILL:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

    async def wait(self, seconds: float) -> int | None:
        await asyncio.wait([self.ended], timeout=seconds)
        return self.ended.result() if self.ended.done() else None

    async def close(self) -> None:
        """An idle worker ends when its socket does; another has no more to say."""
        self.sock.close()
        self.kill(signal.SIGKILL)
        try:
            await self.wait(END_SECONDS)
        finally:
            self.slate.close()


class Nursery:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._serial = 0
        # One at a time: each request and its two descriptors arrive by themselves.
        self._asking = asyncio.Lock()
        self._starting: dict[int, asyncio.Future[int]] = {}
        self._ended: dict[int, asyncio.Future[int]] = {}
        self.gone = False
        self.ready = asyncio.get_running_loop().create_future()

    async def start(self) -> Worker:
        loop = asyncio.get_running_loop()
        self._serial += 1
        serial, slate, begun = self._serial, Slate.new(), False
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        started = self._starting[serial] = loop.create_future()
        ended = self._ended[serial] = loop.create_future()
        try:
            async with self._asking, asyncio.timeout(START_SECONDS):
                socket.send_fds(self._control, [str(serial).encode()], [theirs.fileno(), slate.fd])
                pid = await started
            begun = True
        except (OSError, TimeoutError) as error:
            raise NoWorkers(f"no worker was started: {error!r}") from error
        finally:
            theirs.close()
            self._starting.pop(serial, None)
            if not begun:
                # Also where the caller was cancelled meanwhile: a worker that starts now ends with its socket.
                ours.close()
                slate.close()
        return Worker(pid, ours, slate, memory_of(pid), ended)

    async def listen(self) -> None:
        """Until the zygote is gone."""
        loop = asyncio.get_running_loop()
        rest = b""
        while said := await loop.sock_recv(self._control, MESSAGE):
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                self._hear(orjson.loads(line))

    def _hear(self, facts: dict[str, int]) -> None:
        if "ready" in facts:
            self.ready.set_result(None)
        elif "pid" in facts:
            if (started := self._starting.get(facts["serial"])) is not None and not started.done():
                started.set_result(facts["pid"])
        elif (ended := self._ended.pop(facts["serial"], None)) is not None and not ended.done():
            ended.set_result(facts["status"])

    def lost(self) -> None:
        """Whatever was asked of it has no answer any more; its workers died with it."""
        self.gone = True
        error = NoWorkers("the process that workers come from has ended")
        for waiting in (self.ready, *self._starting.values()):
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()
        for ended in self._ended.values():
            if not ended.done():
                ended.set_result(-signal.SIGKILL)


@asynccontextmanager
async def open_nursery(*, memory_mb: int) -> AsyncIterator[Nursery]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours:
        with theirs:
            arguments = [str(theirs.fileno()), str(os.getpid()), str(memory_mb)]
            zygote = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "limpet.parser.workers.zygote", *arguments, pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL, env=_environment(),
            )  # fmt: skip
        nursery = Nursery(ours)
        listening = asyncio.create_task(_listen(nursery))
        try:
            async with asyncio.timeout(START_SECONDS):
                await nursery.ready
            yield nursery
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            ours.close()
            await _end(zygote)


def _environment() -> dict[str, str]:
    """Foreign code is no business of passwords and keys: only what an interpreter needs to start."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(("LC_", "PYTHON"))}


async def _listen(nursery: Nursery) -> None:
    try:
        await nursery.listen()
    except OSError:
        pass
    finally:
        nursery.lost()


async def _end(zygote: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(END_SECONDS):
            await zygote.wait()
    except TimeoutError:
        zygote.kill()
        await zygote.wait()


def memory_of(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def cpu_of(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
