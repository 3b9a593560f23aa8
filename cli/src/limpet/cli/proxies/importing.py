"""`limpet proxies import`: a file of proxies, part by part."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from limpet.cli.errors import WrongInput
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.proxies.chunks import csv_chunks, plain_chunks
from limpet.cli.proxies.door import open_door
from limpet.cli.terminal import err, out, readable_errors

STDIN: Final = Path("-")
SHOWN: Final = 20


def import_list(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A list, or CSV with a header; - for stdin.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check all of it and write nothing.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="It is CSV, whatever its name.")] = False,
    protocol: Annotated[str | None, typer.Option(help="Where a line names none: http, https or socks5.")] = None,
    kind: Annotated[str | None, typer.Option(help="datacenter, residential or mobile.")] = None,
    country: Annotated[str | None, typer.Option(help="Two letters.")] = None,
    provider: Annotated[str | None, typer.Option()] = None,
    monthly_cost: Annotated[str | None, typer.Option(help="Price of a month, each.")] = None,
    cost_per_gb: Annotated[str | None, typer.Option(help="Price of a gigabyte.")] = None,
    domain: Annotated[str | None, typer.Option(help="Put all of them into this domain's pool.")] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="In that pool; 1 comes first.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA,
) -> None:
    """Add the proxies of a list: host:port, host:port:user:password, scheme://user:password@host:port, or CSV.

    Exit code 0: every line was taken or known; 1: some were refused; 2: wrong input.
    """
    options = {
        "dry_run": "true" if dry_run else None, "protocol": protocol, "kind": kind, "country_code": country,
        "provider": provider, "monthly_cost": monthly_cost, "cost_per_gb": cost_per_gb, "domain": domain,
        "priority": priority,
    }  # fmt: skip
    named = {name: value for name, value in options.items() if value is not None}
    with readable_errors():
        text = _read(file)
        done = _send(text, as_csv=as_csv or file.suffix.lower() == ".csv", options=named, data=data)
    for refusal in done["refusals"]:
        err.print(f"line {refusal['line']}: {escape(refusal['field'])}: {escape(refusal['message'])}")
    if done["refused"] > len(done["refusals"]):
        err.print(f"... and {done['refused'] - len(done['refusals'])} more")
    words = "would be added" if dry_run else "added"
    out.print(f"{done['added']} {words}, {done['known']} known, {done['refused']} refused")
    raise typer.Exit(1 if done["refused"] else 0)


def _read(file: Path) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongInput(f"{file} is not UTF-8.") from None
    except OSError as error:
        raise WrongInput(f"{file} cannot be read: {error.strerror}.") from None


def _send(text: str, *, as_csv: bool, options: dict[str, Any], data: Path) -> dict[str, Any]:
    total: dict[str, Any] = {"added": 0, "known": 0, "refused": 0, "refusals": []}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    kind, chunks = ("text/csv", csv_chunks) if as_csv else ("text/plain", plain_chunks)
    with open_door(data) as door, Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("lines", total=text.count("\n") + 1)
        for chunk in chunks(text):
            done = door.import_proxies(chunk.text, kind=kind, options=options)
            for name in ("added", "known", "refused"):
                total[name] += done[name]
            room = max(0, SHOWN - len(total["refusals"]))
            total["refusals"] += [{**one, "line": one["line"] + chunk.offset} for one in done["refusals"][:room]]
            bar.advance(task, chunk.lines)
    return total
