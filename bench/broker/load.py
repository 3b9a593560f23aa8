"""A client in a process of its own: leases and reports in batches, as fast as it goes or at a given rate."""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import uvloop

from bench.broker.fleet import Fleet, domains
from limpet.contracts.proxy.v1 import proxy_service_pb2 as pb
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceStub
from limpet.kit.rpc import open_channel

if TYPE_CHECKING:
    from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceAsyncStub

DEADLINE = 10.0


@dataclass(frozen=True)
class Order:
    """What the client is to do. A rate of 0 means as fast as it goes."""

    addresses: tuple[str, ...]
    batch: int
    at_once: int
    seconds: float
    rate: float = 0.0


@dataclass
class Outcome:
    """What came of it."""

    seconds: float = 0.0
    leases: int = 0
    refused: int = 0
    lease_ms: list[float] = field(default_factory=list)
    report_ms: list[float] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.leases / self.seconds


def drive(fleet: Fleet, order: Order) -> Outcome:
    """Run one client; the CPU of all processes is what they used meanwhile."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_work, args=(order, theirs), daemon=True)
    worker.start()
    theirs.close()  # or its death would go unnoticed
    ours.recv()  # it is warm now
    before = fleet.cpu_seconds()
    ours.send("go")
    outcome: Outcome = ours.recv()
    outcome.cpu |= {name: used - before[name] for name, used in fleet.cpu_seconds().items()}
    worker.join()
    return outcome


def _work(order: Order, pipe: Connection) -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    uvloop.run(_obey(order, pipe))


async def _obey(order: Order, pipe: Connection) -> None:
    async with open_channel(order.addresses[0]) as first, open_channel(order.addresses[-1]) as last:
        stubs = [ProxyServiceStub(first), ProxyServiceStub(last)][: len(order.addresses)]
        tasks = itertools.count(time.time_ns())
        await _run(
            stubs, Order(order.addresses, order.batch, order.at_once, min(2.0, order.seconds), order.rate), tasks
        )
        pipe.send("warm")
        pipe.recv()
        used, started = time.process_time(), time.perf_counter()
        outcome = await _run(stubs, order, tasks)
        outcome.seconds = time.perf_counter() - started
        outcome.cpu["client"] = time.process_time() - used
        pipe.send(outcome)


async def _run(stubs: Sequence[ProxyServiceAsyncStub], order: Order, tasks: Iterator[int]) -> Outcome:
    outcome = Outcome()
    names = itertools.cycle(domains())
    end = time.perf_counter() + order.seconds
    if order.rate:
        await _pace(stubs, order, outcome, names, tasks)
    else:

        async def loop(stub: ProxyServiceAsyncStub) -> None:
            while time.perf_counter() < end:
                await _turn(stub, order.batch, outcome, names, tasks)

        await asyncio.gather(*(loop(stubs[n % len(stubs)]) for n in range(order.at_once)))
    return outcome


async def _pace(
    stubs: Sequence[ProxyServiceAsyncStub], order: Order, outcome: Outcome, names: Iterator[str], tasks: Iterator[int]
) -> None:
    """Turns begin by the clock, whether or not the one before has ended."""
    start, every = time.perf_counter(), order.batch / order.rate
    turns = []
    for n in range(int(order.seconds / every)):
        await asyncio.sleep(max(0.0, start + n * every - time.perf_counter()))
        turns.append(asyncio.create_task(_turn(stubs[n % len(stubs)], order.batch, outcome, names, tasks)))
    await asyncio.gather(*turns)


async def _turn(
    stub: ProxyServiceAsyncStub, batch: int, outcome: Outcome, names: Iterator[str], tasks: Iterator[int]
) -> None:
    """One call that leases, one that reports: 49 of 50 uses are good, as on a quiet day."""
    wants = [pb.Want(domain=next(names), task_id=next(tasks), attempt=1, ttl_seconds=60) for _ in range(batch)]
    asked = time.perf_counter()
    answer = await stub.Lease(pb.LeaseRequest(holder="bench", wants=wants), timeout=DEADLINE)
    outcome.lease_ms.append((time.perf_counter() - asked) * 1000)
    uses = [
        pb.Used(
            lease_id=grant.lease_id,
            outcome=pb.OUTCOME_SITE_FAILED if grant.lease_id % 50 == 0 else pb.OUTCOME_SUCCESS,
            response_ms=180,
            byte_count=43_000,
        )
        for grant in answer.grants
        if grant.lease_id
    ]
    asked = time.perf_counter()
    await stub.Report(pb.ReportRequest(uses=uses), timeout=DEADLINE)
    outcome.report_ms.append((time.perf_counter() - asked) * 1000)
    outcome.leases += len(uses)
    outcome.refused += len(wants) - len(uses)
