"""What can go wrong for the person at the terminal: every error says what to do next.

CliError
├─ WrongInput    exit 2: the command line cannot be carried out as typed
└─ StartFailed   exit 1: the local platform did not come up
"""

from __future__ import annotations


class CliError(Exception):
    """The command could not do its work."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class WrongInput(CliError):
    """The command line cannot be carried out as typed."""

    exit_code = 2


class StartFailed(CliError):
    """The local platform did not come up."""
