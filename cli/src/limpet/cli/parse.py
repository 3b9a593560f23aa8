"""`limpet parse`: what would a parser or a recipe take from this page?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from limpet.cli.answers import fetched, saved
from limpet.cli.errors import WrongInput
from limpet.cli.terminal import err, out, readable_errors
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.parsers import Parser
from limpet.parser.parsers.registry import BadParser, installed
from limpet.parser.reading import Reading, Unread, read_page
from limpet.parser.recipes.recipe import BadRecipe, Recipe, load_recipe

_TYPES: Final = {
    ".json": "application/json",
    ".xml": "application/xml",
    ".rss": "application/rss+xml",
    ".atom": "application/atom+xml",
    ".gz": "application/gzip",
    ".txt": "text/plain",
}


def parse(
    what: Annotated[str, typer.Argument(metavar="FILE|URL", help="A saved page, or a URL to fetch once.")],
    parser: Annotated[str, typer.Option(help="Name of an installed parser.")] = "",
    recipe: Annotated[Path | None, typer.Option(help="File of a recipe.")] = None,
    url: Annotated[str, typer.Option(help="Address that a saved page came from: relative links start there.")] = "",
    content_type: Annotated[str, typer.Option(help="Its content type; guessed from the file's name.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the items as JSON lines.")] = False,
) -> None:
    """Show what a parser takes from a page. Exit code 1 means that it takes nothing."""
    with readable_errors():
        if bool(parser) == (recipe is not None):
            raise WrongInput("Give either --parser or --recipe.", hint=f"Installed: {', '.join(_installed())}.")
        used = recipe_in(recipe).parser() if recipe is not None else _named(parser)
        if what.startswith(("http://", "https://")):
            answer = fetched(what)
            body, kind, charset = answer.body, *_split(content_type or answer.content_type)
        else:
            body, kind, charset = saved(Path(what)), *_split(content_type or _guessed(Path(what)))
        address = what if what.startswith(("http://", "https://")) else url or "https://page.test/"
        page = PageFetched(url=address, parser=used.name, content_type=kind, charset=charset)
        result = read_page(page, body, parsers={used.name: used})
        if isinstance(result, Unread):
            if result.trace:
                err.print(escape(result.trace.rstrip()))
            raise WrongInput(f"{used.name} cannot read it: {result.error}.")
    items = [json.loads(item) for item in result.items]
    if as_json:
        for item in items:
            out.print(json.dumps(item, ensure_ascii=False), markup=False)
    else:
        _show(items, result)
    raise typer.Exit(0 if items else 1)


def recipe_in(path: Path) -> Recipe:
    try:
        return load_recipe(saved(path).decode(), file=str(path))
    except BadRecipe as error:
        raise WrongInput(f"{error}.", hint="docs/parsers.md shows what a recipe can hold.") from error
    except UnicodeDecodeError as error:
        raise WrongInput(f"{path} is not text in UTF-8.") from error


def _installed() -> Mapping[str, Parser]:
    try:
        return installed()
    except BadParser as error:
        raise WrongInput(f"{error}.") from error


def _named(name: str) -> Parser:
    if (found := _installed().get(name)) is None:
        raise WrongInput(f"There is no parser named {name!r}.", hint=f"Installed: {', '.join(_installed())}.")
    return found


def _guessed(path: Path) -> str:
    return _TYPES.get(path.suffix.lower(), "text/html")


def _split(content_type: str) -> tuple[str, str]:
    """The type and the charset that it names."""
    kind, _, rest = content_type.partition(";")
    name, _, charset = rest.strip().partition("=")
    return kind.strip().lower(), charset.strip(" \"'") if name.strip().lower() == "charset" else ""


def _show(items: Sequence[Mapping[str, Any]], result: Reading) -> None:
    for number, item in enumerate(items, start=1):
        table = Table("field", "value", title=f"item {number} of {len(items)}", title_justify="left", show_lines=False)
        for name, value in item.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            table.add_row(escape(name), "[dim]nothing[/]" if value in (None, [], {}) else escape(text))
        out.print(table)
    out.print(
        f"page type {result.page_type}, {len(items)} items, {result.link_count} links, "
        f"parser version {escape(result.parser_version)}"
    )
