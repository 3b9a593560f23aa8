"""Watch a run until it has ended: a table that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Final

from rich.live import Live

from limpet.cli.runs.door import Answer, RunDoor
from limpet.cli.runs.tables import ending, headline, view
from limpet.cli.terminal import err

LOOK_EVERY_SECONDS: Final = 0.5
LINE_EVERY_SECONDS: Final = 5.0


def watch(door: RunDoor, run_id: str) -> Answer:
    """The run as it ended."""
    return _moving(door, run_id) if err.is_terminal else _in_lines(door, run_id)


def _moving(door: RunDoor, run_id: str) -> Answer:
    run = door.run(run_id)
    with Live(view(run, door.start_pages(run_id)), console=err, refresh_per_second=4) as shown:
        while run["state"] == "collecting":
            time.sleep(LOOK_EVERY_SECONDS)
            run = door.run(run_id)
            shown.update(view(run, door.start_pages(run_id)))
    return run


def _in_lines(door: RunDoor, run_id: str) -> Answer:
    run, next_line = door.run(run_id), 0.0
    while True:
        over = run["state"] != "collecting"
        if over or time.monotonic() >= next_line:
            next_line = time.monotonic() + LINE_EVERY_SECONDS
            err.print(headline(run))
        if over:
            if why := ending(run):
                err.print(why)
            return run
        time.sleep(LOOK_EVERY_SECONDS)
        run = door.run(run_id)
