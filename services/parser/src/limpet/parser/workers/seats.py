"""Where workers sit: each seat hands its worker one chunk after the other, watches it, and replaces it when it dies.

A seat whose worker is slow with a page keeps that page only; the others of its chunk go elsewhere, and a spare seat takes
its place meanwhile. Pages of a domain that has just cost a worker wait in a lane of their own, which only spare seats serve.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from limpet.parser import metrics
from limpet.parser.reading import Unread
from limpet.parser.recipes.folder import Source
from limpet.parser.workers.jobs import Chunk
from limpet.parser.workers.limits import Cost, Excess, Limits, excess
from limpet.parser.workers.nursery import NoWorkers, Nursery, Worker, cpu_of, memory_of
from limpet.parser.workers.slate import Place
from limpet.parser.workers.wire import Garbled, Gone, Read, pages_frame, reads_of, receive_soon

log = structlog.get_logger()

LOOK_EVERY: Final = 0.1
# A page that takes so long is no reason for others to wait.
SLOW_SECONDS: Final = 0.5
SUSPECT_SECONDS: Final = 600.0
SUSPECTS: Final = 10_000
# More than so many pages of suspects are given back to be asked for later.
WARD_PAGES: Final = 100
DYING_SECONDS: Final = 1.0


class Recipes(Protocol):
    @property
    def sources(self) -> Sequence[Source]: ...


class Lane:
    """A queue of chunks, and the seats that serve it."""

    def __init__(self, *, seats: int, most: int) -> None:
        self.queue: asyncio.Queue[Chunk] = asyncio.Queue()
        # So many stay; more come while there is a reason, up to `most`.
        self.stay, self.most = seats, most
        self.seated = 0
        self.slow = 0

    @property
    def wants_another(self) -> bool:
        return self.seated < self.most and self.seated - self.slow < max(self.stay, not self.queue.empty())

    @property
    def has_too_many(self) -> bool:
        return self.seated - self.slow > self.stay and (self.stay > 0 or self.queue.empty())


class Seats:
    def __init__(self, nursery: Nursery, *, processes: int, spares: int, limits: Limits, recipes: Recipes) -> None:
        self._nursery = nursery
        self.recipes = recipes
        self.limits = limits
        self._main = Lane(seats=processes, most=processes + spares)
        self._ward = Lane(seats=0, most=spares)
        self._suspects: OrderedDict[str, float] = OrderedDict()
        self._serial = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        await asyncio.shield(self._failed)

    def put(self, chunk: Chunk) -> None:
        """Suspects apart from the others, and each by itself."""
        plain: list[int] = []
        suspects: list[int] = []
        for index in chunk.indices:
            (suspects if self._is_suspect(chunk.job.pages[index].domain) else plain).append(index)
        if plain:
            self._main.queue.put_nowait(Chunk(chunk.job, plain, chunk.alone))
        if suspects:
            chunk.job.late(suspects)
        for index in suspects:
            if self._ward.queue.qsize() < WARD_PAGES:
                self._ward.queue.put_nowait(Chunk(chunk.job, [index], chunk.alone))
            else:
                error = f"too many pages of {chunk.job.pages[index].domain}, which cost workers lately, wait to be read"
                chunk.job.take(index, Read(Unread(error, retryable=True), None, time.time(), 0.0))
        self._seat_more()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _seat_more(self) -> None:
        for lane in (self._main, self._ward):
            while lane.wants_another:
                lane.seated += 1
                task = asyncio.create_task(self._sit(lane))
                self._tasks.add(task)
                task.add_done_callback(self._stood_up)

    def _stood_up(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _sit(self, lane: Lane) -> None:
        worker: Worker | None = None
        try:
            while not lane.has_too_many:
                chunk = await lane.queue.get()
                chunk = Chunk(chunk.job, [index for index in chunk.indices if chunk.job.is_open(index)], chunk.alone)
                if not chunk.indices:
                    continue
                if worker is not None and (chunk.alone and worker.used):
                    await self._dismiss(worker)
                    worker = None
                worker = worker or await self._hire()
                if not await _Sitting(self, lane, worker, chunk).read():
                    await self._dismiss(worker)
                    worker = None
        finally:
            lane.seated -= 1
            if worker is not None:
                await self._dismiss(worker)

    async def _hire(self) -> Worker:
        worker = await self._nursery.start()
        metrics.WORKERS.inc()
        return worker

    async def _dismiss(self, worker: Worker) -> None:
        metrics.WORKERS.dec()
        await worker.close()

    def check(self) -> None:
        """A worker that ended because all did says nothing about its page."""
        if self._nursery.gone:
            raise NoWorkers("the process that workers come from has ended")

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def has_slow(self, lane: Lane, chunk: Chunk, at: int) -> None:
        lane.slow += 1
        chunk.job.late([chunk.indices[at]])
        if others := [*chunk.indices[:at], *chunk.indices[at + 1 :]]:
            lane.queue.put_nowait(Chunk(chunk.job, others))
        self._seat_more()

    def cost_a_worker(self, domain: str) -> None:
        self._suspects[domain] = time.monotonic() + SUSPECT_SECONDS
        self._suspects.move_to_end(domain)
        if len(self._suspects) > SUSPECTS:
            self._suspects.popitem(last=False)

    def _is_suspect(self, domain: str) -> bool:
        # Nearly always there are none at all.
        if not self._suspects or (until := self._suspects.get(domain)) is None:
            return False
        if until > time.monotonic():
            return True
        del self._suspects[domain]
        return False


class _Sitting:
    """One chunk in the hands of one worker."""

    def __init__(self, seats: Seats, lane: Lane, worker: Worker, chunk: Chunk) -> None:
        self._seats, self._lane, self._worker, self._chunk = seats, lane, worker, chunk
        self._serial = seats.next_serial()
        self._given = time.monotonic()
        self._slow = False

    async def read(self) -> bool:
        """Whether the worker can go on. Every page of the chunk has an outcome then, or is on its way elsewhere."""
        self._worker.used = True
        exchange = asyncio.create_task(self._exchange())
        over: Excess | None = None
        try:
            while over is None and not (await asyncio.wait({exchange}, timeout=LOOK_EVERY))[0]:
                if (over := self._look()) is not None:
                    await self._put_down(exchange)
            if exchange.done():
                return self._taken(*exchange.result()) and over is None
            await self._died(None, over)
        except (Gone, Garbled, OSError) as error:
            await self._died(error, over)
        finally:
            exchange.cancel()
            await asyncio.gather(exchange, return_exceptions=True)
            self._lane.slow -= self._slow
        return False

    async def _exchange(self) -> tuple[list[Read], bool]:
        job, sock = self._chunk.job, self._worker.sock
        recipes = self._seats.recipes.sources
        new = recipes if self._worker.recipes is not recipes and (recipes or self._worker.recipes) else None
        self._worker.recipes = recipes
        pages = [(job.pages[index], job.frames[index]) for index in self._chunk.indices]
        frame = pages_frame(self._serial, pages, recipes=new)
        await asyncio.get_running_loop().sock_sendall(sock, frame)
        return reads_of(await receive_soon(sock))

    def _look(self) -> Excess | None:
        """Only a worker that takes its time is looked at."""
        place, now = self._place(), time.monotonic()
        wall = now - (place.began if place else self._given)
        cpu = cpu_of(self._worker.pid) - place.cpu if place else 0.0
        grown = memory_of(self._worker.pid) - self._worker.memory_at_first
        if wall > SLOW_SECONDS and place is not None and not self._slow:
            self._slow = True
            self._worker.slate.cut(self._serial)
            # Those before it too: their outcomes are with a worker that may never answer, and reading them again is quick.
            self._seats.has_slow(self._lane, self._chunk, place.index)
        return excess(Cost(wall, cpu, grown), self._seats.limits)

    def _place(self) -> Place | None:
        place = self._worker.slate.read()
        return place if place.chunk == self._serial and place.index < len(self._chunk.indices) else None

    async def _put_down(self, exchange: asyncio.Task[tuple[list[Read], bool]]) -> None:
        """It leaves a traceback where it can. An answer that comes meanwhile still counts."""
        self._worker.kill(signal.SIGABRT)
        await asyncio.wait({exchange}, timeout=DYING_SECONDS)
        self._worker.kill(signal.SIGKILL)

    def _taken(self, reads: Sequence[Read], spent: bool) -> bool:
        if len(reads) > len(self._chunk.indices):
            raise Garbled("a worker read more pages than it was given")
        for index, read in zip(self._chunk.indices, reads, strict=False):
            self._chunk.job.take(index, read)
        left = [index for index in self._chunk.indices[len(reads) :] if self._chunk.job.is_open(index)]
        if left and not self._slow:
            self._seats.put(Chunk(self._chunk.job, left))
        if spent:
            metrics.WORKER_ENDS.labels("spent").inc()
        return not spent

    async def _died(self, error: Exception | None, over: Excess | None) -> None:
        """The page that it was at pays for it, unless something else may have been to blame: then it is tried alone."""
        place, chunk = self._place(), self._chunk
        if isinstance(error, Garbled):
            self._worker.kill(signal.SIGKILL)
        code = await self._worker.wait(DYING_SECONDS)
        self._seats.check()
        metrics.WORKER_ENDS.labels(over.of if over else "crash").inc()
        if place is None and len(chunk.indices) > 1:
            # Before the first page: whichever it was, the next time it is by itself.
            self._again(chunk.indices, why=f"{error!r}", code=code)
            return
        at = place.index if place is not None else 0
        index = chunk.indices[at]
        if over is None and not chunk.alone:
            self._again([index], why=_end(code), code=code)
        else:
            self._pays(index, over, code, began=place.began if place is not None else self._given)
        others = [other for other in chunk.indices if other != index and chunk.job.is_open(other)]
        if others and not self._slow:
            self._seats.put(Chunk(chunk.job, others))

    def _again(self, indices: Sequence[int], *, why: str, code: int | None) -> None:
        log.warning("worker_lost", pid=self._worker.pid, code=code, why=why)
        for index in indices:
            self._seats.put(Chunk(self._chunk.job, [index], alone=True))

    def _pays(self, index: int, over: Excess | None, code: int | None, *, began: float) -> None:
        page = self._chunk.job.pages[index]
        error = over.error if over else f"the process that read it {_end(code)}"
        seconds = time.monotonic() - began
        log.warning("worker_died", pid=self._worker.pid, code=code, task_id=page.task_id, url=page.url, why=error)
        self._seats.cost_a_worker(page.domain)
        unread = Unread(error, trace=self._worker.slate.trace())
        self._chunk.job.take(index, Read(unread, None, time.time() - seconds, seconds))


def _end(code: int | None) -> str:
    if code is None:
        return "did not end"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended by itself with exit code {code}"
