"""What can go wrong in the broker and is worth a name.

Permanent
├── BadRequest          the caller's message breaks the contract
└── SecretUnreadable    no key opens the password, or it belongs to another proxy
"""

from __future__ import annotations

from limpet.kit.errors import Permanent


class BadRequest(Permanent):
    """A field of the request holds what the contract forbids."""


class SecretUnreadable(Permanent):
    """No key opens this password, or it was sealed for another proxy."""
