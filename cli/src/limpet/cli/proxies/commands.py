"""`limpet proxies`: look at proxies, add, import, decide about them, and see what they cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from limpet.cli.errors import WrongInput
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.proxies import importing, policy, rotation
from limpet.cli.proxies.door import open_door
from limpet.cli.proxies.secret import read_password
from limpet.cli.proxies.tables import address, cost_table, facts_table, proxy_table, state
from limpet.cli.terminal import err, out, readable_errors

app: Final = typer.Typer(help="Look at proxies, add, import and decide about them.", no_args_is_help=True)
app.command("import")(importing.import_list)
app.command("policy")(policy.policy)
app.command("rotate-keys")(rotation.rotate_keys)

Data = Annotated[Path, typer.Option(help="Folder of the local platform.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")]
Ids = Annotated[list[int], typer.Argument(metavar="ID...", help="Ids of proxies.", min=1)]


@app.command("list")
def list_proxies(
    provider: Annotated[str | None, typer.Option(help="Only of this provider.")] = None,
    country: Annotated[str | None, typer.Option(help="Only of this country: two letters.")] = None,
    kind: Annotated[str | None, typer.Option(help="datacenter, residential or mobile.")] = None,
    protocol: Annotated[str | None, typer.Option(help="http, https or socks5.")] = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Only those that may be leased, or not.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Only of this domain's pool.")] = None,
    as_json: AsJson = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """List proxies with their state and how they do."""
    filters = {"provider": provider, "country_code": country, "kind": kind, "protocol": protocol, "domain": domain}
    if active is not None:
        filters["active"] = "true" if active else "false"
    with readable_errors(), open_door(data) as door, err.status("reading"):
        found = list(door.list_proxies(_named(filters)))
    if as_json:
        out.print_json(json.dumps(found))
        return
    out.print(proxy_table(found))
    out.print(f"{len(found)} proxies")


@app.command()
def add(
    host: Annotated[str, typer.Argument(help="Name or address.")],
    port: Annotated[int, typer.Argument(min=1, max=65535)],
    protocol: Annotated[str, typer.Option(help="http, https or socks5.")] = "http",
    username: Annotated[str, typer.Option(help="The password is asked for, or read: see below.")] = "",
    password_file: Annotated[Path | None, typer.Option(help="File that holds the password.")] = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="Do not ask for one.")] = False,
    kind: Annotated[str, typer.Option(help="datacenter, residential or mobile.")] = "datacenter",
    country: Annotated[str, typer.Option(help="Two letters.")] = "",
    city: Annotated[str, typer.Option()] = "",
    provider: Annotated[str, typer.Option()] = "",
    monthly_cost: Annotated[str | None, typer.Option(help="Price of a month.")] = None,
    cost_per_gb: Annotated[str | None, typer.Option(help="Price of a gigabyte.")] = None,
    max_per_hour: Annotated[int, typer.Option(min=0, help="Requests in an hour; 0 for no limit.")] = 1000,
    max_concurrent: Annotated[int, typer.Option(min=1, help="Leases at one time.")] = 10,
    data: Data = DEFAULT_DATA,
) -> None:
    """Add a proxy. Its password comes from --password-file, LIMPET_PROXY_PASSWORD or a prompt, never from an argument."""
    body: dict[str, Any] = {
        "protocol": protocol,
        "host": host.strip("[]"),
        "port": port,
        "username": username,
        "kind": kind,
        "country_code": country,
        "city": city,
        "provider": provider,
        "max_requests_per_hour": max_per_hour or None,
        "max_concurrent_leases": max_concurrent,
        **_named({"monthly_cost": monthly_cost, "cost_per_gb": cost_per_gb}),
    }
    with readable_errors(), open_door(data) as door:
        if not no_password and (password := read_password(file=password_file, ask=bool(username))) is not None:
            body["password"] = password
        added = door.add_proxy(body)
    out.print(f"added {added['proxy_id']}: {address(added)}", markup=False)


@app.command()
def show(
    proxy_id: Annotated[int, typer.Argument(metavar="ID", min=1)], as_json: AsJson = False, data: Data = DEFAULT_DATA
) -> None:
    """Show all that is known of a proxy, except its password."""
    with readable_errors(), open_door(data) as door:
        found = door.show_proxy(proxy_id)
    if as_json:
        out.print_json(json.dumps(found))
    else:
        out.print(facts_table(found))


@app.command()
def enable(proxy_ids: Ids, data: Data = DEFAULT_DATA) -> None:
    """Let proxies be leased again; their cool-downs end as well."""
    _decide(proxy_ids, "enable", data)


@app.command()
def disable(proxy_ids: Ids, data: Data = DEFAULT_DATA) -> None:
    """Give out no more leases of these proxies until somebody enables them."""
    _decide(proxy_ids, "disable", data)


@app.command()
def remove(
    proxy_ids: Ids,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Remove proxies for good. What they have cost stays known."""
    if not yes:
        typer.confirm(f"Remove {len(proxy_ids)} proxies for good?", abort=True, err=True)
    with readable_errors(), open_door(data) as door:
        for proxy_id in proxy_ids:
            door.remove_proxy(proxy_id)
            out.print(f"{proxy_id}: removed")


@app.command()
def costs(
    by: Annotated[str, typer.Option(help="provider, proxy or domain.")] = "provider",
    since: Annotated[str | None, typer.Option(help="RFC 3339; else the start of this month.")] = None,
    until: Annotated[str | None, typer.Option(help="RFC 3339; else now.")] = None,
    as_json: AsJson = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show what a thousand good pages cost."""
    with readable_errors(), open_door(data) as door, err.status("reading"):
        found = list(door.costs(_named({"by": by, "since": since, "until": until})))
    if as_json:
        out.print_json(json.dumps(found))
    else:
        out.print(cost_table(by, found))


@app.command()
def sizing(
    domain: Annotated[str, typer.Argument(help="Name of the domain.")],
    rate: Annotated[
        str | None, typer.Option(help="Plan for so many requests an hour, not for what was measured.")
    ] = None,
    max_per_proxy: Annotated[str | None, typer.Option(help="Plan for so many requests of a proxy in an hour.")] = None,
    as_json: AsJson = False,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show how many proxies a domain needs, and how many it has."""
    with readable_errors(), open_door(data) as door:
        found = door.sizing(domain, _named({"rate_per_hour": rate, "max_requests_per_proxy": max_per_proxy}))
    if as_json:
        out.print_json(json.dumps(found))
    else:
        out.print(facts_table(found))


def _decide(proxy_ids: list[int], verb: str, data: Path) -> None:
    with readable_errors(), open_door(data) as door:
        for proxy_id in proxy_ids:
            if proxy_id < 1:
                raise WrongInput(f"{proxy_id} is no id of a proxy.")
            out.print(f"{proxy_id}: {state(door.decide(proxy_id, verb))}")


def _named(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
