"""`limpet status`: how the platform is, in two small tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from limpet.cli.errors import CliError
from limpet.cli.front_door import FrontDoor
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.reach import find
from limpet.cli.terminal import out, readable_errors


def status(data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA) -> None:
    """Show the verdict, the tasks by status and the workers of the running platform."""
    with readable_errors():
        reached = find(data)
        if reached is None:
            raise CliError(f"No platform runs on {data}.", hint="Start one with: limpet up")
        with FrontDoor(reached.url, key=reached.key) as door:
            verdict, stats = door.health(), door.stats()
    out.print(f"{reached.url}: [bold]{verdict.get('status', 'unknown')}[/]")
    out.print(f"pages/s: {stats.get('pages_per_second', 0):.1f}")
    out.print(_table("tasks", stats.get("tasks", {})))
    out.print(_table("workers", stats.get("workers", {})))


def _table(title: str, facts: Mapping[str, Any]) -> Table:
    table = Table(title, "", title_justify="left")
    for name, value in facts.items():
        shown = ", ".join(f"{key} {inner}" for key, inner in value.items()) if isinstance(value, Mapping) else value
        table.add_row(str(name), str(shown))
    return table
