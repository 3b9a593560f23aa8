"""The `limpet` command."""

from __future__ import annotations

import typer

from limpet.cli.crawl import crawl
from limpet.cli.explain import explain
from limpet.cli.export import export
from limpet.cli.judge import judge
from limpet.cli.parse import parse
from limpet.cli.parsers import app as parsers
from limpet.cli.proxies.commands import app as proxies
from limpet.cli.reparse import reparse
from limpet.cli.status import status
from limpet.cli.up import up

app = typer.Typer(
    name="limpet",
    help="A polite crawler: start it on this machine, crawl, look at it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command()(up)
app.command()(crawl)
app.command()(status)
app.command()(explain)
app.command()(export)
app.command()(reparse)
app.add_typer(proxies, name="proxies")
app.command()(judge)
app.command()(parse)
app.add_typer(parsers, name="parser")

if __name__ == "__main__":
    app()
