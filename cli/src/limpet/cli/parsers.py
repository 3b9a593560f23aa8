"""`limpet parser`: begin a recipe from a saved page, and check one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limpet.cli.answers import saved
from limpet.cli.errors import WrongInput
from limpet.cli.parse import recipe_in
from limpet.cli.scaffold import scaffold
from limpet.cli.terminal import err, out, readable_errors

app = typer.Typer(help="Recipes: parsers of one site, in YAML.", no_args_is_help=True)


@app.command()
def new(
    site: Annotated[str, typer.Argument(help="Name of the site: the recipe's name.")],
    page: Annotated[Path, typer.Option("--from", help="A saved page of the site.")],
    to: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
    url: Annotated[str, typer.Option(help="Address that the page came from.")] = "https://page.test/",
) -> None:
    """Write a recipe that reads what the page shows at first sight, and a test that keeps it reading so."""
    with readable_errors():
        made = scaffold(site, saved(page), url=url)
        files = {to / name: content for name, content in made.items()}
        if there := [path for path in files if path.exists()]:
            raise WrongInput(f"{there[0]} is there already.", hint="Give another name or --to another folder.")
        try:
            to.mkdir(parents=True, exist_ok=True)
            for path, content in files.items():
                path.write_bytes(content)
        except OSError as error:
            raise WrongInput(f"{to} cannot be written to: {error.strerror}.") from error
    for path in files:
        out.print(f"wrote {path}", markup=False)
    err.print(f"Next: limpet parse {page} --recipe {next(iter(files))}", markup=False)


@app.command()
def check(recipe: Annotated[Path, typer.Argument(help="File of a recipe.")]) -> None:
    """Say whether a recipe is right; where it is not, in which field and why."""
    with readable_errors():
        found = recipe_in(recipe)
    out.print(f"{recipe} is right: {found.name}, version {found.version}, {len(found.fields)} fields", markup=False)
