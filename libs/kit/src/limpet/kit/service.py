"""Run the parts of a process together, stop them together."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from typing import Any

import structlog
import uvloop
from prometheus_client import Gauge

from limpet.kit.errors import CannotRecover
from limpet.kit.ops import Readiness, serve_ops

log = structlog.get_logger()

# What a part gets to end in once it is told to; the REST edge takes up to five seconds for its last answers.
STOP_SECONDS = 10.0
EXIT_STUCK = 70

BUILD_INFO = Gauge("limpet_build_info", "1, with the version that runs.", ["version"])


async def serve(
    *,
    readiness: Readiness,
    drain: Callable[[], Coroutine[Any, Any, None]] | None = None,
    **parts: Coroutine[Any, Any, None],
) -> None:
    """Run until SIGTERM or SIGINT, or until a part fails: then the process ends and is started again by its keeper.

    `drain` runs first on a signal, while the parts still work: it stops taking work and waits for work in hand.
    Parts are cancelled last to first.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tasks = {name: asyncio.create_task(part, name=name) for name, part in parts.items()}
    stopping = asyncio.create_task(stop.wait())
    readiness.started()
    log.info("service_started", parts=list(parts))
    try:
        await asyncio.wait([stopping, *tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        if stopping.done() and drain is not None:
            readiness.set("service", ok=False, why="stopping")
            await drain()
    finally:
        stopping.cancel()
        for task in reversed(list(tasks.values())):
            task.cancel()
            await asyncio.wait([task], timeout=STOP_SECONDS)
    if stuck := [name for name, task in tasks.items() if not task.done()]:
        # Nothing that is left to do here would come back from waiting for it.
        log.critical("parts_stuck", parts=stuck)
        os._exit(EXIT_STUCK)
    for name, task in tasks.items():
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("part_failed", part=name, error=repr(error))
            raise error
    log.info("service_stopped")


async def starting(
    readiness: Readiness, *, host: str, port: int, main: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Answer /livez and /readyz from the first moment, also while the process still waits for its servers."""
    ops = asyncio.create_task(serve_ops(readiness, host=host, port=port))
    work = asyncio.create_task(main())
    try:
        await asyncio.wait([ops, work], return_when=asyncio.FIRST_COMPLETED)
        if ops.done():
            work.cancel()
            await asyncio.wait([work])
            ops.result()
        await work
    finally:
        work.cancel()
        ops.cancel()
        await asyncio.gather(work, ops, return_exceptions=True)


def run_service(main: Coroutine[Any, Any, None]) -> None:
    # What was imported stays for ever; looking through it again and again took a tenth of a busy process.
    BUILD_INFO.labels(version("limpet-kit")).set(1)
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    try:
        uvloop.run(main)
    except CannotRecover as error:
        log.critical("service_gave_up", why=str(error), code=error.code)
        raise SystemExit(error.code) from None
