"""`limpet crawl`: from typed URLs to a file of items."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from limpet.cli.allowed_hosts import allow
from limpet.cli.errors import CliError, WrongInput
from limpet.cli.front_door import FrontDoor
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.naming import domain_name
from limpet.cli.reach import Reached, find_or_start
from limpet.cli.tally import Tally
from limpet.cli.terminal import err, out, readable_errors, stop_on_signal
from limpet.cli.watch import watch

DEFAULT_DELAY_SECONDS: Final = 1.0
STDOUT: Final = Path("-")
FAILURES_SHOWN: Final = 5


def crawl(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Where to begin.")],
    follow: Annotated[bool, typer.Option("--follow", help="Follow links within the same domains.")] = False,
    max_pages: Annotated[int | None, typer.Option(min=1, help="Stop after so many pages.")] = None,
    max_bytes: Annotated[int | None, typer.Option(min=1, help="Stop after so many bytes of pages.")] = None,
    depth: Annotated[int | None, typer.Option(min=0, help="Follow links so many steps from the URLs.")] = None,
    include: Annotated[list[str] | None, typer.Option(help="Follow only what this pattern (RE2) is found in.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Never follow what this pattern (RE2) is found in.")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="Follow links to this host as well.")] = None,
    same_domain: Annotated[
        bool, typer.Option("--same-domain", help="Follow links to hosts below the same name.")
    ] = False,
    drop_param: Annotated[list[str] | None, typer.Option(help="Leave out this parameter (* matches any).")] = None,
    keep_param: Annotated[list[str] | None, typer.Option(help="Leave out all parameters but these.")] = None,
    sort_params: Annotated[bool, typer.Option("--sort-params", help="The order of parameters means nothing.")] = False,
    nofollow: Annotated[
        bool, typer.Option("--ignore-nofollow/--obey-nofollow", help="Follow nofollow links too.")
    ] = False,
    traps: Annotated[
        bool, typer.Option("--traps/--no-traps", help="Leave calendars, filters and the like at a limit.")
    ] = True,
    sitemaps: Annotated[bool, typer.Option("--sitemaps", help="Follow what the sites' sitemaps list.")] = False,
    delay: Annotated[
        float | None,
        typer.Option(min=0.0, max=3600.0, help="Seconds between requests to a domain; 1 for a new domain."),
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="File for the items, one JSON object a line; - for stdout.")] = Path(
        "items.jsonl"
    ),
    data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA,
) -> None:
    """Crawl the URLs on the running platform, or on one started for it, and write the items.

    Exit code 0: every page was crawled; 1: some failed; 2: wrong input.
    """
    stop_on_signal()
    batch = f"crawl-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    reached: Reached | None = None
    with readable_errors():
        domains = list(dict.fromkeys(domain_name(url) for url in urls))
        allowed = [domain_name(f"http://{host}/") for host in allow_host or ()]
        if sitemaps or depth is not None or include or exclude or allowed:
            # They say what to follow: somebody who says it wants it.
            follow = True
        scope = scope_of(
            depth=depth, include=include, exclude=exclude, hosts=allowed, same_domain=same_domain, drop=drop_param,
            keep=keep_param, sort_params=sort_params, nofollow=nofollow, traps=traps,
        )  # fmt: skip
        if to != STDOUT and not to.absolute().parent.is_dir():
            raise WrongInput(f"There is no folder {to.parent} for {to.name}.", hint="Make it, or choose another --out.")
        try:
            with find_or_start(data) as reached, FrontDoor(reached.url, key=reached.key) as door:
                if reached.data is not None:
                    allow(reached.data / "allowed-hosts", [*domains, *allowed])
                for name in dict.fromkeys([*domains, *allowed]):
                    door.ensure_domain(name, delay=delay, default_delay=DEFAULT_DELAY_SECONDS)
                started = time.monotonic()
                door.create_batch(
                    batch, follow=follow, max_pages=max_pages, max_bytes=max_bytes, sitemaps=sitemaps, scope=scope
                )
                refused = _submit(door, urls, batch=batch)
                tally = watch(lambda: door.batch_progress(batch), follow=follow)
                seconds = time.monotonic() - started
                items = _write(door.items(batch), to=to)
                _show_failures(door, batch, tally)
                _show_left_out(door, batch)
        except KeyboardInterrupt:
            _say_how_to_go_on(batch, reached, data=data)
            raise typer.Exit(130) from None
    failed = tally.failed + refused
    where = "" if to == STDOUT else f" -> {to}"
    (err if to == STDOUT else out).print(summary(tally.parsed, items, failed=failed, seconds=seconds) + where)
    raise typer.Exit(1 if failed else 0)


def summary(pages: int, items: int, *, failed: int, seconds: float) -> str:
    """The crawl in one line."""
    rate = pages / seconds if seconds > 0 else 0.0
    return f"{pages} pages, {items} items, {failed} failed, {seconds:.1f} s, {rate:.1f} pages/s"


def _submit(door: FrontDoor, urls: list[str], *, batch: str) -> int:
    """Submit; how many were refused. When all were, there is nothing to wait for."""
    wanted = list(dict.fromkeys(urls))
    refused = door.submit(wanted, batch=batch)
    for one in refused:
        err.print(f"refused: {one.get('url')}: {one.get('message')}", markup=False)
    if len(refused) == len(wanted):
        raise WrongInput("The platform refused every URL.")
    return len(refused)


def _write(items: Iterable[Mapping[str, Any]], *, to: Path) -> int:
    """Write an item a line; how many there were. The file appears whole or not at all."""
    if to == STDOUT:
        return sum(1 for item in items if sys.stdout.write(json.dumps(item, ensure_ascii=False) + "\n"))
    draft = to.with_name(f".{to.name}.part")
    count = 0
    try:
        with draft.open("w", encoding="utf-8") as file:
            for item in items:
                file.write(json.dumps(item, ensure_ascii=False) + "\n")
                count += 1
        draft.replace(to)
    except OSError as error:
        raise CliError(f"Cannot write {to}: {error.strerror}.", hint="Choose another file with --out.") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _show_failures(door: FrontDoor, batch: str, tally: Tally) -> None:
    if not tally.failed:
        return
    for task in door.batch_failures(batch, limit=FAILURES_SHOWN):
        why = task.get("error_message") or "see its attempts"
        err.print(f"failed: {task.get('url')}: {why}", markup=False)
    if tally.failed > FAILURES_SHOWN:
        err.print(f"... and {tally.failed - FAILURES_SHOWN} more: GET /api/admin/tasks?batch={batch}&status=failed")


def _show_left_out(door: FrontDoor, batch: str) -> None:
    """What was not followed, the commonest reason first."""
    for one in door.batch(batch).get("left_out", ()):
        err.print(f"not followed: {one['links']} links, {one['reason']}, like {one['example']}", markup=False)


def scope_of(
    *,
    depth: int | None,
    include: list[str] | None,
    exclude: list[str] | None,
    hosts: list[str],
    same_domain: bool,
    drop: list[str] | None,
    keep: list[str] | None,
    sort_params: bool,
    nofollow: bool,
    traps: bool,
) -> dict[str, Any]:
    """What the batch follows, as the API takes it: only what was said."""
    said: dict[str, Any] = {
        "max_depth": depth,
        "include": include,
        "exclude": exclude,
        "allow_hosts": hosts or None,
        "hosts": "same_domain" if same_domain else None,
        "drop_params": drop,
        "keep_params": keep,
        "sort_params": sort_params or None,
        "obey_nofollow": False if nofollow else None,
        "traps": None if traps else False,
    }
    return {name: value for name, value in said.items() if value is not None}


def _say_how_to_go_on(batch: str, reached: Reached | None, *, data: Path) -> None:
    err.print("interrupted; no items were written")
    if reached is None:
        return
    if reached.own:
        err.print(
            f"What was crawled is kept in {data}; the rest of batch {batch} goes on with: limpet up --data {data}"
        )
    else:
        err.print(f"The platform goes on with batch {batch}; its items: GET {reached.url}/api/items?batch={batch}")
