"""`limpet proxies rotate-keys`: passwords move under the newest key while one looks on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.proxies.door import open_door
from limpet.cli.terminal import err, out, readable_errors


def rotate_keys(data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA) -> None:
    """Seal every password under the newest key, and say what lies under which.

    Exit code 0: all are; 1: the key of some is gone.
    """
    resealed, unreadable = 0, 0
    after: int | None = 0
    done: dict[str, Any] = {"keys": []}
    with readable_errors(), open_door(data) as door, err.status("sealing") as line:
        while after is not None:
            done = dict(door.rotate_keys(after=after))
            resealed += done["resealed"]
            unreadable += len(done["unreadable"])
            after = done["next"]
            left = sum(key["passwords"] for key in done["keys"] if not key["newest"])
            line.update(f"sealing: {resealed} done, {left - unreadable} left")
    table = Table("key", "passwords", "")
    for key in done["keys"]:
        note = "newest" if key["newest"] else "may be taken away" if not key["passwords"] else ""
        table.add_row(
            key["key_id"] or "-", str(key["passwords"]), note if key["present"] else "gone: set new passwords"
        )
    out.print(table)
    out.print(f"{resealed} sealed anew, {unreadable} unreadable")
    raise typer.Exit(1 if unreadable else 0)
