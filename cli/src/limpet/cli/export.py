"""`limpet export`: products or items into a file, however many there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from limpet.cli.data_door import DataDoor
from limpet.cli.errors import CliError, WrongInput
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.reach import find
from limpet.cli.terminal import err, readable_errors


class What(StrEnum):
    products = "products"
    items = "items"


class Form(StrEnum):
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"


ONLY_PRODUCTS: Final = ("q", "price_min", "price_max", "currency", "availability", "updated_since")
ONLY_ITEMS: Final = ("batch", "parser")


def export(
    what: Annotated[What, typer.Argument(help="What to export.")],
    out: Annotated[Path | None, typer.Option(help="The file; - is stdout. Else products.jsonl and the like.")] = None,
    form: Annotated[
        Form | None, typer.Option("--format", help="Else what the file's name ends in, else jsonl.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Only of this domain.")] = None,
    q: Annotated[str | None, typer.Option(help="Products: words to look for.")] = None,
    price_min: Annotated[str | None, typer.Option(help="Products: at least.")] = None,
    price_max: Annotated[str | None, typer.Option(help="Products: at most.")] = None,
    currency: Annotated[str | None, typer.Option(help="Products: EUR and the like.")] = None,
    availability: Annotated[str | None, typer.Option(help="Products: in_stock, out_of_stock and the like.")] = None,
    updated_since: Annotated[str | None, typer.Option(help="Products: changed at or after this time.")] = None,
    batch: Annotated[str | None, typer.Option(help="Items: only of this batch.")] = None,
    parser: Annotated[str | None, typer.Option(help="Items: only of this parser.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA,
) -> None:
    """Write products or items to a file as JSON lines, CSV or Parquet."""
    with readable_errors():
        given = {
            "domain": domain, "q": q, "price_min": price_min, "price_max": price_max, "currency": currency,
            "availability": availability, "updated_since": updated_since, "batch": batch, "parser": parser,
        }  # fmt: skip
        chosen = form or _by_name(out) or Form.jsonl
        query = {**_fitting(what, given), "format": chosen.value}
        target = out or Path(f"{what.value}.{chosen.value}")
        reached = find(data)
        if reached is None:
            raise CliError(f"No platform runs on {data}.", hint="Start one with: limpet up")
        with DataDoor(reached.url, key=reached.key) as door, door.stream(f"/api/{what.value}", query) as pieces:
            size = _to_stdout(pieces) if str(target) == "-" else _to_file(pieces, target)
        if str(target) != "-":
            err.print(f"{target}: {size:,} bytes")


def _fitting(what: What, given: dict[str, str | None]) -> dict[str, Any]:
    foreign = ONLY_ITEMS if what is What.products else ONLY_PRODUCTS
    for name in foreign:
        if given[name] is not None:
            raise WrongInput(f"--{name.replace('_', '-')} does not go with {what.value}.")
    return {name: value for name, value in given.items() if value is not None}


def _by_name(out: Path | None) -> Form | None:
    ending = out.suffix.removeprefix(".") if out is not None else ""
    return Form(ending) if ending in [form.value for form in Form] else None


def _to_stdout(pieces: Iterator[bytes]) -> int:
    return _write(pieces, sys.stdout.buffer)


def _to_file(pieces: Iterator[bytes], target: Path) -> int:
    """The file is there when it is whole, and not before."""
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            size = _write(pieces, file)
        part.replace(target)
    except OSError as error:
        raise WrongInput(f"{target} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return size


def _write(pieces: Iterator[bytes], file: BinaryIO) -> int:
    size = 0
    columns = (TextColumn("export"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as shown:
        bar = shown.add_task("export", total=None)
        for piece in pieces:
            file.write(piece)
            size += len(piece)
            shown.update(bar, completed=size)
    file.flush()
    return size
