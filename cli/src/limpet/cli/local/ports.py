"""Loopback ports that are free now and stay ours."""

from __future__ import annotations

import random
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
# Below the range that systems hand to outgoing connections: a crawler opens many of those, and a port taken by one
# of them could not be bound again by a server that restarts.
FIRST_PORT: Final = 20_000
LAST_PORT: Final = 32_000


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def is_open(port: int) -> bool:
    """Whether somebody listens on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_ports(count: int) -> list[int]:
    """`count` different free ports."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(FIRST_PORT, LAST_PORT), LAST_PORT - FIRST_PORT):
        if len(found) == count:
            break
        if is_free(port):
            found.append(port)
    return found
