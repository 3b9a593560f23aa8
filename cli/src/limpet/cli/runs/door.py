"""The front door's part for runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from limpet.cli.errors import CliError
from limpet.cli.front_door import PAGE, FrontDoor
from limpet.cli.reach import find

RUNS: Final = "/api/admin/runs"
Answer = Mapping[str, Any]


class RunDoor(FrontDoor):
    """One method per request."""

    def start(self, body: Answer) -> Answer:
        """With an id of its own, so that it may be sent again while the platform is away for a moment."""
        return self._told("POST", RUNS, body=body)

    def run(self, run_id: str) -> Answer:
        return self._told("GET", _path(run_id))

    def start_pages(self, run_id: str) -> list[Answer]:
        return list(self._every(f"{_path(run_id)}/start-pages", {}))

    def abort(self, run_id: str) -> Answer:
        return self._told("POST", f"{_path(run_id)}/abort")

    def runs(self, query: Answer, *, most: int) -> Iterator[Answer]:
        """The newest first."""
        for count, run in enumerate(self._every(RUNS, {**query, "limit": min(most, PAGE)}), start=1):
            yield run
            if count == most:
                return

    def _told(self, method: str, path: str, *, body: Answer | None = None) -> Answer:
        answer: Answer = self._send(method, path, body=body).json()
        return answer

    def _every(self, path: str, query: Answer) -> Iterator[Answer]:
        asked = {"limit": PAGE, **query}
        while True:
            answer = self._send("GET", path, query=asked).json()
            yield from answer["items"]
            if answer["next"] is None:
                return
            asked["after"] = answer["next"]


def _path(run_id: str) -> str:
    return f"{RUNS}/{quote(run_id, safe='')}"


@contextmanager
def open_door(data: Path) -> Iterator[RunDoor]:
    """The door of the platform that runs."""
    reached = find(data)
    if reached is None:
        raise CliError(f"No platform runs on {data}.", hint="Start one with: limpet up")
    with RunDoor(reached.url, key=reached.key) as door:
        yield door
