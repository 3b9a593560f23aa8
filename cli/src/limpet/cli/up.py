"""`limpet up`: the whole platform on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from limpet.cli.local.platform import Platform
from limpet.cli.local.runtime import DEFAULT_DATA
from limpet.cli.terminal import err, out, readable_errors, start_shown, stop_on_signal


def up(
    fetchers: Annotated[int, typer.Option(min=1, max=64, help="How many fetchers.")] = 1,
    schedulers: Annotated[int, typer.Option(min=1, max=16, help="How many schedulers.")] = 1,
    data: Annotated[Path, typer.Option(help="Folder for everything the platform keeps.")] = DEFAULT_DATA,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the front door.")] = 8080,
) -> None:
    """Start NATS, PostgreSQL and the five services; Ctrl-C stops them in order.

    The admin key is LIMPET_API_KEY if set, else one is made and kept in the data folder. Other LIMPET_ variables reach
    the services as they are.
    """
    stop_on_signal()
    key = os.environ.get("LIMPET_API_KEY", "")
    with readable_errors():
        try:
            with ExitStack() as stack:
                with start_shown() as on_step:
                    platform = Platform(
                        data, fetchers=fetchers, schedulers=schedulers, port=port, key=key, on_step=on_step
                    )
                    stack.enter_context(platform)
                _say_where(platform, key_is_yours=bool(key))
                threading.Event().wait()
        except KeyboardInterrupt:
            err.print("stopped")


def _say_where(platform: Platform, *, key_is_yours: bool) -> None:
    out.print(f"Limpet is ready at [bold]{platform.url}[/]")
    out.print("Key: " + ("the one in LIMPET_API_KEY" if key_is_yours else platform.key))
    out.print(f"Data: {platform.data} (logs in {platform.data / 'logs'})")
    shown = "$LIMPET_API_KEY" if key_is_yours else platform.key
    out.print(f'Try: curl -H "Authorization: Bearer {shown}" {platform.url}/api/system/stats')
    out.print("Ctrl-C stops everything.")
    out.file.flush()
