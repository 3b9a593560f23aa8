"""A process and its parts: they run together, end together, and say why. Real processes, real signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.support.servers import free_port

HEAD = """
import asyncio, sys
from limpet.kit.log import setup_logging
from limpet.kit.ops import Readiness
from limpet.kit.service import run_service, serve, starting

setup_logging("test", "INFO")
readiness = Readiness()

def say(*words):
    print(*words, flush=True)

async def part(name):
    say("running", name)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.01)
        say("stopped", name)
"""
SERVING = """
async def drain():
    say("draining", readiness.waiting_for)

async def main():
    await serve(readiness=readiness, drain=drain, first=part("first"), second=part("second"), third=part("third"))

run_service(main())
"""
FAILING = """
async def failing():
    await asyncio.sleep(0)
    raise RuntimeError("out of luck")

async def main():
    await serve(readiness=readiness, steady=part("steady"), failing=failing())

run_service(main())
"""
ENDING = """
async def brief():
    say("done")

async def main():
    await serve(readiness=readiness, steady=part("steady"), brief=brief())

run_service(main())
"""
BAD_DRAIN = """
async def drain():
    raise RuntimeError("cannot drain")

async def main():
    await serve(readiness=readiness, drain=drain, only=part("only"))

run_service(main())
"""
GIVING_UP = """
from limpet.kit.errors import CannotRecover

async def giving_up():
    await asyncio.sleep(0)
    raise CannotRecover("out of options", 71)

async def main():
    await serve(readiness=readiness, steady=part("steady"), giving_up=giving_up())

run_service(starting(readiness, host="127.0.0.1", port={port}, main=main))
"""
STUBBORN = """
from limpet.kit import service
service.STOP_SECONDS = 0.2

async def stubborn():
    say("running stubborn")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue

async def main():
    await serve(readiness=readiness, stubborn=stubborn(), last=part("last"))

run_service(main())
"""
BLOCKED = """
import time
from limpet.kit.selfcheck import Selfcheck
from limpet.kit.stall import InHand

class Client:
    is_closed = False

class Bus:
    client, in_hand = Client(), InHand()

async def blocking():
    await asyncio.sleep(0.3)
    say("blocking")
    time.sleep(30)

async def main():
    check = Selfcheck(Bus(), None, readiness, after=1.0)
    await serve(readiness=readiness, selfcheck=check.run(), blocking=blocking())

run_service(main())
"""
STARTING = """
async def main():
    readiness.set("nats", ok=False, why="refused")
    await asyncio.Event().wait()

run_service(starting(readiness, host="127.0.0.1", port={port}, main=main))
"""
NEVER_STARTED = """
async def main():
    raise RuntimeError("no such database")

run_service(starting(readiness, host="127.0.0.1", port={port}, main=main))
"""


@contextmanager
def process(script: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HEAD + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def read_until(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdout is not None
    while (said := child.stdout.readline()) != f"{line}\n":
        assert said, "the process ended before it said so"


def finish(child: subprocess.Popen[str]) -> tuple[list[str], list[dict[str, object]], str]:
    """What it printed, what it logged, and all of its standard error."""
    out, err = child.communicate(timeout=15)
    logged = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    return out.splitlines(), logged, err


def test_sigterm_drains_then_stops_the_parts_last_to_first_and_the_code_is_0() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with process(SERVING) as child:
            read_until(child, "running third")
            child.send_signal(number)
            printed, logged, _ = finish(child)
            assert printed == [
                "draining {'service': 'stopping'}",
                "stopped third",
                "stopped second",
                "stopped first",
            ]
            assert child.returncode == 0
            assert [line["event"] for line in logged] == ["service_started", "service_stopped"]
            assert {line["service"] for line in logged} == {"test"}


def test_a_part_that_fails_ends_the_process_with_its_error() -> None:
    with process(FAILING) as child:
        printed, logged, err = finish(child)
        assert child.returncode == 1
        assert printed == ["running steady", "stopped steady"]
        assert "RuntimeError: out of luck" in err
        (failed,) = (line for line in logged if line["event"] == "part_failed")
        assert (failed["part"], failed["level"]) == ("failing", "error")
        assert "out of luck" in str(failed["error"])


def test_a_part_that_is_done_ends_the_process_well() -> None:
    with process(ENDING) as child:
        printed, _, _ = finish(child)
        assert child.returncode == 0
        assert printed == ["running steady", "done", "stopped steady"]


def test_a_drain_that_fails_still_stops_the_parts() -> None:
    with process(BAD_DRAIN) as child:
        read_until(child, "running only")
        child.terminate()
        printed, _, err = finish(child)
        assert printed == ["stopped only"]
        assert child.returncode == 1
        assert "cannot drain" in err


def test_a_process_answers_while_it_still_waits_for_its_servers() -> None:
    port = free_port()
    with process(STARTING.format(port=port)) as child:
        waiting = answer_of(f"http://127.0.0.1:{port}/readyz", child)
        assert (waiting.status_code, waiting.json()["waiting_for"]["nats"]) == (503, "refused")
        assert httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200


def answer_of(address: str, child: subprocess.Popen[str]) -> httpx.Response:
    deadline = time.monotonic() + 15
    while True:
        try:
            return httpx.get(address)
        except httpx.TransportError:
            assert child.poll() is None, "the process ended"
            assert time.monotonic() < deadline, f"{address} did not answer"


def test_a_start_that_fails_ends_the_process_with_its_error() -> None:
    with process(NEVER_STARTED.format(port=free_port())) as child:
        _, _, err = finish(child)
        assert child.returncode == 1
        assert "no such database" in err


def test_an_ops_port_that_is_taken_ends_the_process() -> None:
    """A process that cannot be asked how it is must not run."""
    port = free_port()
    with process(STARTING.format(port=port)) as first:
        answer_of(f"http://127.0.0.1:{port}/livez", first)
        with process(STARTING.format(port=port)) as second:
            finish(second)
            assert second.returncode not in (0, None)


def test_f11_a_process_that_cannot_recover_ends_with_the_code_that_says_why() -> None:
    with process(GIVING_UP.format(port=free_port())) as child:
        printed, logged, err = finish(child)
        assert child.returncode == 71
        assert printed == ["running steady", "stopped steady"]
        assert logged[-1]["event"] == "service_gave_up"
        assert (logged[-1]["why"], logged[-1]["code"]) == ("out of options", 71)
        assert "Traceback" not in err


def test_f11_a_part_that_does_not_stop_cannot_keep_the_process() -> None:
    with process(STUBBORN) as child:
        read_until(child, "running last")
        child.terminate()
        printed, logged, _ = finish(child)
        assert child.returncode == 70
        assert printed == ["stopped last"]
        assert (logged[-1]["event"], logged[-1]["parts"]) == ("parts_stuck", ["stubborn"])


def test_f11_a_loop_that_is_blocked_ends_the_process_and_says_where() -> None:
    with process(BLOCKED) as child:
        read_until(child, "blocking")
        _, logged, _ = finish(child)
        assert child.returncode == 70
        assert logged[-1]["event"] == "loop_blocked"
        assert "in blocking" in str(logged[-1]["where"])
