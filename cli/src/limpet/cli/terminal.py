"""What all commands share at the terminal: where they write, how they fail, how they are stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from limpet.cli.errors import CliError

# Results go to stdout, everything said on the way to stderr.
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def readable_errors() -> Iterator[None]:
    """An error of ours becomes two lines and an exit code, never a traceback."""
    try:
        yield
    except CliError as error:
        err.print(f"[bold red]error:[/] {_plain(error.message)}")
        if error.hint:
            err.print(f"  {_plain(error.hint)}")
        raise typer.Exit(error.exit_code) from error


def stop_on_signal() -> None:
    """SIGTERM asks as Ctrl-C does, also for a process started in the background, which would ignore Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def no_more_signals() -> None:
    """From now on nothing cuts the orderly stop short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def start_shown() -> Iterator[Callable[[str, str], None]]:
    """Show how a start goes: one line that moves on a terminal, a plain line per process elsewhere."""
    ready: list[str] = []
    waiting: dict[str, str] = {}
    with err.status("starting") as line:

        def on_step(name: str, state: str) -> None:
            if state == "stopping":
                no_more_signals()
                line.stop()
                err.print(f"stopping {name}")
                return
            if state == "ready":
                waiting.pop(name, None)
                ready.append(name)
                if not err.is_terminal:
                    err.print(f"ready: {name}")
            else:
                waiting[name] = state
            rest = ", ".join(f"{name} ({_plain(why)})" for name, why in waiting.items())
            line.update(f"ready: {', '.join(ready) or 'none yet'}" + (f" · {rest}" if rest else ""))

        yield on_step


def _plain(text: str) -> str:
    """Text of others is not markup."""
    return text.replace("[", r"\[")
