"""Find the platform a command talks to, or start one for it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from limpet.cli.errors import CliError, WrongInput
from limpet.cli.local.platform import Platform
from limpet.cli.local.runtime import Runtime, find_running
from limpet.cli.terminal import err, start_shown

STARTS_WITHIN_SECONDS: Final = 90.0


@dataclass(frozen=True)
class Reached:
    """A platform to talk to. `data` is its folder where it runs on this machine, `own` whether it ends with us."""

    url: str
    key: str
    data: Path | None = None
    own: bool = False


def find(data: Path) -> Reached | None:
    """The platform of LIMPET_URL, else the one that runs on `data`."""
    url, key = os.environ.get("LIMPET_URL", "").rstrip("/"), os.environ.get("LIMPET_API_KEY", "")
    running = find_running(data)
    if url:
        local = running is not None and running.url == url
        key = key or (running.key if running is not None and local else "")
        if not key:
            raise WrongInput("LIMPET_URL is set, LIMPET_API_KEY is not.", hint="Set it to a key of that platform.")
        return Reached(url=url, key=key, data=data if local else None)
    if running is None:
        return None
    running = _once_ready(running, data)
    return Reached(url=running.url, key=running.key, data=data)


@contextmanager
def find_or_start(data: Path) -> Iterator[Reached]:
    """The platform that is there, or one that lives as long as the block."""
    found = find(data)
    if found is not None:
        yield found
        return
    with ExitStack() as stack:
        with start_shown() as on_step:
            key = os.environ.get("LIMPET_API_KEY", "")
            platform = stack.enter_context(Platform(data, key=key, on_step=on_step))
        yield Reached(url=platform.url, key=platform.key, data=data, own=True)


def _once_ready(running: Runtime, data: Path) -> Runtime:
    """Another terminal may be starting it at this moment."""
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    with err.status("waiting for the platform that is starting"):
        while not running.ready:
            if time.monotonic() > deadline:
                raise CliError(f"The platform on {data} does not get ready.", hint=f"Its logs are in {data / 'logs'}.")
            time.sleep(0.1)
            again = find_running(data)
            if again is None:
                raise CliError(f"The platform on {data} has stopped.", hint="Start it again with: limpet up")
            running = again
    return running
