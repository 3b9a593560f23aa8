"""`limpet explain`: why a URL or a task stands where it stands, and what moves it on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from limpet.cli.errors import CliError
from limpet.cli.front_door import FrontDoor
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.reach import find
from limpet.cli.terminal import out, readable_errors

WAKES: Final = {
    "clock": "the clock",
    "permit_back": "a request that comes back",
    "robots_read": "robots.txt, once it is read",
    "parent_ends": "the end of its parent",
    "parser": "a parser",
    "person": "a person",
}


def explain(
    what: Annotated[str, typer.Argument(metavar="URL|ID", help="A URL in any spelling, or the id of a task.")],
    batch: Annotated[str | None, typer.Option(help="Say whether this batch would follow a link to it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
    data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA,
) -> None:
    """Say why a URL is where it is, what wakes it and when, and what happens then."""
    with readable_errors():
        reached = find(data)
        if reached is None:
            raise CliError(f"No platform runs on {data}.", hint="Start one with: limpet up")
        with FrontDoor(reached.url, key=reached.key) as door:
            said = door.explain(what, batch=batch)
    if as_json:
        out.print_json(json.dumps(said))
        return
    for line in told(said, now=datetime.now(UTC)):
        out.print(line)


def told(said: Mapping[str, Any], *, now: datetime) -> list[str]:
    """The answer in a few lines."""
    since, at = _time(said["since"]), _time(said["wakes_at"])
    lines = [
        f"[bold]{escape(said['url'])}[/] (task {said['task_id']}): {said['status']}, {said['gate']}",
        escape(said["sentence"]),
    ]
    if since is not None:
        lines.append(f"since: {ago(since, now=now)}")
    wakes = WAKES.get(said["wakes"], said["wakes"])
    lines.append(f"wakes it: {wakes}" + (f", {ago(at, now=now)}" if at is not None else ""))
    lines.append(f"then: {escape(said['next'])}")
    return lines


def ago(moment: datetime, *, now: datetime) -> str:
    """A time as people say it: in 42 s, 3 min ago, and by their own clock when that is a day or more."""
    seconds = (moment - now).total_seconds()
    size = abs(seconds)
    if size < 1:
        return "now"
    text = (
        f"{size:.0f} s" if size < 120
        else f"{size / 60:.0f} min" if size < 7200
        else f"{size / 3600:.0f} h" if size < 172_800
        else f"{size / 86_400:.0f} days"
    )  # fmt: skip
    spoken = f"in {text}" if seconds > 0 else f"{text} ago"
    return spoken if size < 86_400 else f"{spoken} ({moment.astimezone():%Y-%m-%d %H:%M})"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
