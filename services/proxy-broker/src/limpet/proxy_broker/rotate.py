"""Rotate: passwords move under the newest key, a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from limpet.kit.pg import Pool
from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.store import imports, secrets
from limpet.proxy_broker.vault import Vault

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """What one batch did, and what lies under which key after it."""

    resealed: int
    # Their key is gone: only a new password helps.
    unreadable: list[int]
    next: int | None
    by_key: dict[str, int]


async def rotate(pool: Pool, vault: Vault, *, after: int, limit: int) -> Rotation:
    """Seal anew what is not under the newest key, from the proxy after this one on."""
    async with pool.acquire() as conn, conn.transaction():
        old = await secrets.lock_old(conn, after=after, newest=vault.newest, limit=limit)
        fresh: dict[int, str] = {}
        unreadable: list[int] = []
        for proxy_id, sealed in old.items():
            try:
                fresh[proxy_id] = vault.seal(vault.open(sealed, proxy_id=proxy_id), proxy_id=proxy_id)
            except SecretUnreadable:
                unreadable.append(proxy_id)
        if fresh:
            await imports.set_passwords(conn, sealed=fresh)
        by_key = await secrets.count_by_key(conn)
    log.info("passwords_resealed", count=len(fresh), unreadable=len(unreadable), key_id=vault.newest)
    last = max(old) if len(old) == limit else None
    return Rotation(resealed=len(fresh), unreadable=unreadable, next=last, by_key=by_key)
