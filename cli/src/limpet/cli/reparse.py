"""`limpet reparse`: stored pages read again, without one request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from limpet.cli.data_door import DataDoor
from limpet.cli.errors import CliError
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.reach import find
from limpet.cli.terminal import err, out, readable_errors

LOOK_EVERY: Final = 0.5
COUNTS: Final = ("written", "changed", "same", "gone", "failed", "outdated")


def reparse(
    task: Annotated[int | None, typer.Option(help="The page of one task.")] = None,
    domain: Annotated[str | None, typer.Option(help="Pages of a domain.")] = None,
    batch: Annotated[str | None, typer.Option(help="Pages of a batch.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="Fetched at or after this time (RFC 3339).")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Fetched before this time.")] = None,
    parser: Annotated[str | None, typer.Option(help="By this parser instead of each page's own.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Say what would differ, and write nothing.")] = False,
    wait: Annotated[bool, typer.Option(help="Stay until it is done. Ctrl-C leaves it to go on by itself.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the job as JSON.")] = False,
    data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA,
) -> None:
    """Parse stored pages again, and write what their parsers find now."""
    given = {
        "task_id": task, "domain": domain, "batch": batch, "from": since, "to": until, "parser": parser,
        "dry_run": dry_run or None,
    }  # fmt: skip
    with readable_errors():
        reached = find(data)
        if reached is None:
            raise CliError(f"No platform runs on {data}.", hint="Start one with: limpet up")
        with DataDoor(reached.url, key=reached.key) as door:
            job = door.start_reparse({name: value for name, value in given.items() if value is not None})
            if wait:
                job = _followed(door, job)
    if as_json:
        out.print_json(json.dumps(job))
        return
    for line in told(job):
        out.print(line)


def _followed(door: DataDoor, job: Mapping[str, Any]) -> Mapping[str, Any]:
    columns = (TextColumn("reparse"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as shown:
        bar = shown.add_task("reparse", total=job["total"])
        while job["state"] == "running":
            time.sleep(LOOK_EVERY)
            job = door.reparse_job(job["job_id"])
            shown.update(bar, completed=job["read_count"])
    return job


def told(job: Mapping[str, Any]) -> Iterator[str]:
    """The job in a few lines, and what differs field by field."""
    counts = ", ".join(f"{job[f'{name}_count']} {name}" for name in COUNTS if job[f"{name}_count"])
    kind = "dry run" if job["dry_run"] else "job"
    yield f"{kind} {job['job_id']}: {job['state']}, {job['read_count']} of {job['total']} pages read" + (
        f": {counts}" if counts else ""
    )
    found = job["differences"]
    if found["items_added"] or found["items_removed"]:
        yield f"items: {found['items_added']} added, {found['items_removed']} removed"
    for name, field in sorted(found["fields"].items()):
        parts = [f"{field[kind]} {kind}" for kind in ("added", "removed", "changed") if field[kind]]
        yield f"[bold]{escape(name)}[/]: {', '.join(parts)}"
        for sample in field["samples"][:2]:
            before, after = (json.dumps(sample[side], ensure_ascii=False) for side in ("before", "after"))
            yield escape(f"    {before} -> {after}  {sample['url']}")
