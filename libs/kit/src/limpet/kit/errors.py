"""What can go wrong, as the runtime sees it.

LimpetError
├── Retryable       trying the same thing again later can succeed
├── Permanent       trying again cannot succeed
└── CannotRecover   the process has to end and to be started again
"""

from __future__ import annotations


class LimpetError(Exception):
    """Any failure that Limpet itself raises."""


class Retryable(LimpetError):
    """Trying the same message again later can succeed."""


class Permanent(LimpetError):
    """Trying again cannot succeed."""


class CannotRecover(LimpetError):
    """This process cannot get well by itself; its keeper sees the exit code and starts another."""

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.code = code
