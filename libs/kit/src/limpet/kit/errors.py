"""What can go wrong, as the runtime sees it.

LimpetError
├── Retryable    trying the same thing again later can succeed
└── Permanent    trying again cannot succeed
"""

from __future__ import annotations


class LimpetError(Exception):
    """Any failure that Limpet itself raises."""


class Retryable(LimpetError):
    """Trying the same message again later can succeed."""


class Permanent(LimpetError):
    """Trying again cannot succeed."""
