"""`limpet proxies policy`: show, change or drop what is decided about a domain's proxies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from limpet.cli.errors import WrongInput
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.proxies.door import open_door
from limpet.cli.proxies.tables import facts_table
from limpet.cli.terminal import out, readable_errors


def policy(
    domain: Annotated[str, typer.Argument(help="Name of the domain.")],
    strategy: Annotated[str | None, typer.Option(help="lru, sticky or weighted.")] = None,
    sticky_by: Annotated[str | None, typer.Option(help="session or hour.")] = None,
    sticky_for: Annotated[str | None, typer.Option(help="Seconds, or ISO 8601 such as PT10M.")] = None,
    country: Annotated[str | None, typer.Option(help="Two letters; empty for any.")] = None,
    providers: Annotated[str | None, typer.Option(help="Names, separated by commas; empty for all.")] = None,
    kinds: Annotated[str | None, typer.Option(help="Kinds, separated by commas; empty for all.")] = None,
    tiers: Annotated[str | None, typer.Option(help="From the cheapest, such as direct,datacenter,residential.")] = None,
    pair_failures: Annotated[int | None, typer.Option(min=1, help="Failures in a row that disable a pair.")] = None,
    pair_cooldown: Annotated[str | None, typer.Option(help="Seconds, or ISO 8601.")] = None,
    block_cooldown: Annotated[str | None, typer.Option(help="Seconds, or ISO 8601; 0 means 0.")] = None,
    wave_proxies: Annotated[int | None, typer.Option(min=1, help="Refused proxies that trip the domain.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Back to the defaults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
    data: Annotated[Path, typer.Option(help="Folder of the local platform.")] = DEFAULT_DATA,
) -> None:
    """Show a domain's proxy policy; with options, change these and leave the others."""
    wishes: dict[str, Any] = {
        "strategy": strategy, "sticky_by": sticky_by, "sticky_for": _duration(sticky_for), "country_code": country,
        "providers": _list(providers), "kinds": _list(kinds), "tiers": _list(tiers), "pair_failures": pair_failures,
        "pair_cooldown": _duration(pair_cooldown), "block_cooldown": _duration(block_cooldown),
        "wave_proxies": wave_proxies,
    }  # fmt: skip
    named = {name: value for name, value in wishes.items() if value is not None}
    with readable_errors(), open_door(data) as door:
        if reset and named:
            raise WrongInput("--reset drops the whole policy.", hint="Leave out the other options.")
        if reset:
            door.drop_policy(domain)
        found = door.policy(domain)
        if named:
            kept = {name: value for name, value in found.items() if name in wishes}
            found = door.put_policy(domain, {**kept, **named})
    if as_json:
        out.print_json(json.dumps(found))
    else:
        out.print(facts_table(found))


def _list(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _duration(text: str | None) -> float | str | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
