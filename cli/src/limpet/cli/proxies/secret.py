"""A password from where no shell history and no list of processes shows it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import typer

from limpet.cli.errors import WrongInput

VARIABLE: Final = "LIMPET_PROXY_PASSWORD"


def read_password(*, file: Path | None, ask: bool) -> str | None:
    """From the file, else the environment, else the terminal. None: there is none."""
    if file is not None:
        try:
            return file.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongInput(f"The password file {file} cannot be read: {type(error).__name__}.") from None
    if (given := os.environ.get(VARIABLE)) is not None:
        return given
    if not ask:
        return None
    if not sys.stdin.isatty():
        raise WrongInput(
            "A username needs a password, and there is no terminal to ask at.",
            hint=f"Set {VARIABLE}, or use --password-file or --no-password.",
        )
    asked: str = typer.prompt("Password of the proxy", hide_input=True, err=True)
    return asked
