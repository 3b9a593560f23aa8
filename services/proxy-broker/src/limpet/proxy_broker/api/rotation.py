"""Passwords under a new key, over REST."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from limpet.kit.pg import Pool
from limpet.kit.rest import require
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import After
from limpet.proxy_broker.rotate import rotate
from limpet.proxy_broker.vault import Vault


def make_router(pool: Pool, vault: Vault) -> APIRouter:
    router = APIRouter(prefix="/api/admin/proxies", tags=["proxies"])

    @router.post("/rotate-keys", dependencies=[require("admin")])
    async def rotate_keys(limit: Annotated[int, Query(ge=1, le=5000)] = 1000, after: After = 0) -> answers.Rotated:
        """Seal a batch of passwords under the newest key. Ask again with `after` = `next` until that is null."""
        done = await rotate(pool, vault, after=after, limit=limit)
        ids = dict.fromkeys([*vault.key_ids, *done.by_key])
        keys = [
            answers.SealedUnder(
                key_id=key_id,
                passwords=done.by_key.get(key_id, 0),
                newest=key_id == vault.newest,
                present=key_id in vault.key_ids,
            )
            for key_id in ids
        ]
        return answers.Rotated(resealed=done.resealed, unreadable=done.unreadable, next=done.next, keys=keys)

    return router
