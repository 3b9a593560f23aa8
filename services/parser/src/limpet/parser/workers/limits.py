"""What one page may cost, and whether it has cost more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    wall_seconds: float = 20.0
    cpu_seconds: float = 5.0
    memory_mb: int = 512


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the page that a worker is at. Memory is what the worker has grown by since it began."""

    wall_seconds: float
    cpu_seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Excess:
    # One of cpu, wall, memory.
    of: str
    error: str


def excess(cost: Cost, limits: Limits) -> Excess | None:
    if cost.cpu_seconds > limits.cpu_seconds:
        return Excess("cpu", f"reading it took more than {limits.cpu_seconds:g} s of CPU time")
    if cost.wall_seconds > limits.wall_seconds:
        return Excess("wall", f"reading it took more than {limits.wall_seconds:g} s")
    # The kernel refuses memory at the limit, and the worker says where; this is for what it cannot refuse.
    if cost.memory_bytes * 4 > (limits.memory_mb << 20) * 5:
        return Excess("memory", f"reading it took more than {limits.memory_mb} MB of memory")
    return None
