"""Passwords of proxies while they are handed out: opened once, and a proxy whose password does not open is set aside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from limpet.kit.pg import Conn
from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.store import changes, proxy_health
from limpet.proxy_broker.strategy import Candidate
from limpet.proxy_broker.vault import Vault

log = structlog.get_logger()

MOST: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Passwords:
    """Remembers what a sealed password opens to: the same one is handed out thousands of times."""

    vault: Vault
    aside_for: timedelta
    _opened: dict[tuple[int, str], str] = field(default_factory=dict, repr=False)

    def open(self, proxy_id: int, sealed: str | None) -> str:
        if sealed is None:
            return ""
        password = self._opened.get((proxy_id, sealed))
        if password is None:
            password = self.vault.open(sealed, proxy_id=proxy_id)
            if len(self._opened) >= MOST:
                self._opened.clear()
            self._opened[proxy_id, sealed] = password
        return password

    async def set_aside(self, conn: Conn, candidates: Iterable[Candidate]) -> bool:
        """Whether there were locked proxies whose password no key opens; they cool down."""
        broken = sorted({c.proxy_id for c in candidates if not self._opens(c.proxy_id, c.password_sealed)})
        if broken:
            log.error("secrets_unreadable", proxy_ids=broken)
            await proxy_health.cool(conn, proxy_ids=broken, length=self.aside_for)
            await changes.add(conn, proxy_ids=broken, active=False, reason="secret_unreadable")
        return bool(broken)

    def _opens(self, proxy_id: int, sealed: str | None) -> bool:
        try:
            self.open(proxy_id, sealed)
        except SecretUnreadable:
            return False
        return True
