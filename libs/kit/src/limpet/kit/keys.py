"""API keys: only their hashes are known here; a role includes the weaker ones."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from limpet.kit.errors import Permanent

ROLES = ("read", "operate", "admin")


class BadKeys(Permanent):
    """LIMPET_API_KEYS is not a list of `role:sha256hex`."""


@dataclass(frozen=True)
class Keys:
    hashes: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Keys:
        """`role:sha256hex,…`. No key at all is refused: there is no open mode."""
        found: list[tuple[str, str]] = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            role, _, digest = part.partition(":")
            if role not in ROLES or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
                raise BadKeys("each key is role:sha256hex with role read, operate or admin")
            found.append((role, digest))
        if not found:
            raise BadKeys("holds no key: give at least one, the API is never open")
        return cls(tuple(found))

    def role_of(self, key: str) -> str | None:
        """The strongest role of a key, or None for a key that nobody issued."""
        digest = hashlib.sha256(key.encode()).hexdigest()
        roles = [role for role, known in self.hashes if hmac.compare_digest(known, digest)]
        return max(roles, key=ROLES.index, default=None)


def allows(role: str, needed: str) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)
