"""Watch a batch until its last task is done: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from limpet.cli.tally import Pace, Tally, as_clock
from limpet.cli.terminal import err

LOOK_EVERY_SECONDS: Final = 0.3
LINE_EVERY_SECONDS: Final = 5.0
# Links of the last page may still be on their way when it is completed.
QUIET_SECONDS: Final = 2.0


def watch(look: Callable[[], Mapping[str, int]], *, follow: bool) -> Tally:
    """Look again and again until every task is terminal, and with `follow` stays so for a moment."""
    pace, shown = Pace(), _Shown()
    quiet_since: float | None = None
    with shown.bar:
        while True:
            tally, now = Tally.of(look()), time.monotonic()
            pace.add(tally.done, now=now)
            shown.update(tally, pace, now=now)
            if not tally.finished:
                quiet_since = None
            elif not follow or now - (quiet_since := quiet_since or now) >= QUIET_SECONDS:
                return tally
            time.sleep(LOOK_EVERY_SECONDS)


class _Shown:
    """The bar, or the lines that stand for it."""

    def __init__(self) -> None:
        text = "queued {task.fields[queued]} · fetched {task.fields[fetched]} · parsed {task.fields[parsed]}"
        self.bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=30),
            TextColumn(text),
            TextColumn("failed {task.fields[failed]}", style="red"),
            TextColumn("{task.fields[rate]:.1f} pages/s · ETA {task.fields[eta]}"),
            console=err,
            disable=not err.is_terminal,
        )
        self._task: TaskID | None = None
        self._next_line = 0.0

    def update(self, tally: Tally, pace: Pace, *, now: float) -> None:
        rate, eta = pace.per_second, as_clock(pace.eta_seconds(tally))
        if err.is_terminal:
            if self._task is None:
                self._task = self.bar.add_task(
                    "crawl", total=None, queued=0, fetched=0, parsed=0, failed=0, rate=0.0, eta=""
                )
            self.bar.update(
                self._task,
                total=tally.total,
                completed=tally.done,
                queued=tally.queued,
                fetched=tally.fetched,
                parsed=tally.parsed,
                failed=tally.failed,
                rate=rate,
                eta=eta,
            )
        elif now >= self._next_line or tally.finished:
            self._next_line = now + LINE_EVERY_SECONDS
            err.print(
                f"queued {tally.queued}, fetched {tally.fetched}, parsed {tally.parsed}, failed {tally.failed}, "
                f"{rate:.1f} pages/s, ETA {eta}"
            )
