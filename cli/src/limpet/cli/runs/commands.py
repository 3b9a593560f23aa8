"""`limpet run`: begin runs, look at them, watch them, abort them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import typer

from limpet.cli.allowed_hosts import allow
from limpet.cli.errors import CliError, WrongInput
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.naming import domain_name
from limpet.cli.reach import find
from limpet.cli.runs.door import RunDoor, open_door
from limpet.cli.runs.live import watch as watch_run
from limpet.cli.runs.tables import run_table, view
from limpet.cli.terminal import err, out, readable_errors, stop_on_signal

app: Final = typer.Typer(help="Collect all URLs of a site, then publish all of them or none.", no_args_is_help=True)
DEFAULT_DELAY_SECONDS: Final = 1.0

Data = Annotated[Path, typer.Option(help="Folder of the local platform.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run.")]


@app.command()
def start(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="The start pages, all of one site.")],
    on_failed: Annotated[
        str, typer.Option("--on-failed", help="When a start page fails: abort, skip or quorum.")
    ] = "abort",
    quorum: Annotated[
        float | None, typer.Option(help="With --on-failed quorum: the share of start pages that must complete.")
    ] = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Start pages may be without a URL.")] = False,
    least_share: Annotated[
        float | None, typer.Option(help="Abort below this share of the URLs of the last good run.")
    ] = None,
    item_pattern: Annotated[
        str | None, typer.Option(help="Collect the links that match this pattern; else those that look like items.")
    ] = None,
    max_list_pages: Annotated[int | None, typer.Option(min=1, help="Most list pages of a start page.")] = None,
    recrawl: Annotated[bool, typer.Option("--recrawl", help="Crawl known pages again too.")] = False,
    run_id: Annotated[str | None, typer.Option("--id", help="A UUID: the same id again is the same run.")] = None,
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Stay until it has ended.")] = True,
    data: Data = DEFAULT_DATA,
) -> None:
    """Begin a run; where one of the site is live, that is the run. Exit code 0: committed; 1: aborted; 2: wrong input."""
    stop_on_signal()
    with readable_errors():
        sites = list(dict.fromkeys(domain_name(url) for url in urls))
        if len(sites) != 1:
            raise WrongInput(f"The start pages are of {len(sites)} sites: {', '.join(sites)}.", hint="A run has one.")
        body: dict[str, Any] = {
            "run_id": run_id or str(uuid4()), "site": sites[0], "start_pages": urls, "on_failed_start_page": on_failed,
            "allow_empty": allow_empty, "recrawl": recrawl,
        }  # fmt: skip
        wishes = {
            "quorum": quorum, "least_share": least_share, "item_pattern": item_pattern, "max_list_pages": max_list_pages,
        }  # fmt: skip
        body |= {name: value for name, value in wishes.items() if value is not None}
        reached = find(data)
        if reached is None:
            raise CliError(f"No platform runs on {data}.", hint="Start one with: limpet up")
        with RunDoor(reached.url, key=reached.key) as door:
            if reached.data is not None:
                allow(reached.data / "allowed-hosts", sites)
            door.ensure_domain(sites[0], delay=None, default_delay=DEFAULT_DELAY_SECONDS)
            run = door.start(body)
            if run["run_id"] != body["run_id"]:
                err.print(f"{sites[0]} has a live run already: {run['run_id']}")
            if not watch:
                out.print(run["run_id"])
                return
            _stay(door, run["run_id"])


@app.command()
def watch(run_id: RunId, data: Data = DEFAULT_DATA) -> None:
    """Show how each start page gets on until the run has ended. Exit code 0: committed; 1: aborted."""
    stop_on_signal()
    with readable_errors(), open_door(data) as door:
        _stay(door, run_id)


@app.command()
def show(run_id: RunId, as_json: AsJson = False, data: Data = DEFAULT_DATA) -> None:
    """Show a run with its start pages and their last failures."""
    with readable_errors(), open_door(data) as door:
        run, pages = door.run(run_id), door.start_pages(run_id)
    if as_json:
        out.print_json(json.dumps({**run, "pages": pages}))
    else:
        out.print(view(run, pages))


@app.command()
def abort(run_id: RunId, data: Data = DEFAULT_DATA) -> None:
    """Give a run up. Nothing of it is published."""
    with readable_errors(), open_door(data) as door:
        run = door.abort(run_id)
    out.print(f"run {run['run_id']}: {run['state']}")


@app.command("list")
def list_runs(
    site: Annotated[str | None, typer.Option(help="Only of this site.")] = None,
    state: Annotated[str | None, typer.Option(help="collecting, committed or aborted.")] = None,
    most: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 20,
    as_json: AsJson = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """List runs, the newest first."""
    query = {name: value for name, value in {"site": site, "state": state}.items() if value is not None}
    with readable_errors(), open_door(data) as door:
        found = list(door.runs(query, most=most))
    if as_json:
        out.print_json(json.dumps(found))
    else:
        out.print(run_table(found))


def _stay(door: RunDoor, run_id: str) -> None:
    try:
        run = watch_run(door, run_id)
    except KeyboardInterrupt:
        err.print(f"the run goes on; look at it with: limpet run watch {run_id}")
        raise typer.Exit(130) from None
    raise typer.Exit(0 if run["state"] == "committed" else 1)
