"""Hosts that a batch may follow links to: those that are domains, and new ones below a domain, with its settings."""

from __future__ import annotations

from collections.abc import Mapping

from limpet.kit.pg import Conn
from limpet.scheduler.announce import note_change
from limpet.scheduler.scope import Scope
from limpet.scheduler.store.batch_shapes import count_shapes
from limpet.scheduler.store.domains import copy_domain, find_domains

SHAPE = "hosts"


async def known_hosts(conn: Conn, batch_id: int, origins: Mapping[str, int], scope: Scope) -> dict[str, int]:
    """Their ids by host; `origins` says which domain each was met on. The batch is locked by the caller."""
    ids = await find_domains(conn, list(origins))
    if scope.hosts != "same_domain":
        # Hosts that were listed by name are made by whoever lists them.
        return ids
    for host in sorted(origins.keys() - ids.keys()):
        if host in scope.allow_hosts:
            continue
        # A site may invent hosts without end.
        if (await count_shapes(conn, batch_id, {SHAPE: 1}))[SHAPE] > scope.max_hosts:
            break
        row = await copy_domain(conn, host, of=origins[host])
        if row is not None:
            await note_change(conn, row)
            ids[host] = row["domain_id"]
    return ids
