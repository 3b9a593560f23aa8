"""Import: a list of proxies goes in, batch by batch; what is known stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import structlog
from pydantic import ValidationError

from limpet.kit.pg import Conn, Pool
from limpet.proxy_broker import metrics
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.api.schemas import AddProxy
from limpet.proxy_broker.proxy_lines import Entry, Refusal
from limpet.proxy_broker.store import changes, imports, pairs
from limpet.proxy_broker.store.imports import Identity
from limpet.proxy_broker.store.proxies import NewProxy
from limpet.proxy_broker.vault import Vault

log = structlog.get_logger()

# Small enough that leases do not notice: the same process gives them out.
BATCH: Final = 500
REFUSALS_SHOWN: Final = 1000


@dataclass(kw_only=True)
class Outcome:
    """What became of the lines; of the refused ones only the first are described."""

    added: int = 0
    known: int = 0
    assigned: int = 0
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, refusal: Refusal) -> None:
        self.refused += 1
        if len(self.refusals) < REFUSALS_SHOWN:
            self.refusals.append(refusal)


@dataclass(frozen=True, kw_only=True)
class Import:
    """Set-based: a batch costs a handful of statements. A repeat adds nothing."""

    pool: Pool
    vault: Vault
    announce: Announce

    async def take(
        self, lines: Iterable[Entry | Refusal], *, defaults: dict[str, Any], domain: str | None, priority: int
    ) -> Outcome:
        outcome = Outcome()
        for batch in _checked(lines, defaults, outcome):
            async with self.pool.acquire() as conn, conn.transaction():
                added = await self._add(conn, batch)
                if domain is not None:
                    outcome.assigned += await self._assign(conn, batch, added, domain=domain, priority=priority)
            outcome.added += len(added)
            outcome.known += len(batch) - len(added)
            self.announce.wake()
        self._tell(outcome)
        return outcome

    async def _add(self, conn: Conn, batch: dict[Identity, AddProxy]) -> dict[Identity, int]:
        new = [NewProxy(**proxy.model_dump(exclude={"password"})) for proxy in batch.values()]
        added = await imports.add_many(conn, proxies=new)
        sealed = {
            proxy_id: self.vault.seal(secret.get_secret_value(), proxy_id=proxy_id)
            for key, proxy_id in added.items()
            if (secret := batch[key].password) is not None
        }
        if sealed:
            await imports.set_passwords(conn, sealed=sealed)
        if added:
            await changes.add(conn, proxy_ids=sorted(added.values()), active=True, reason="added")
        return added

    async def _assign(
        self, conn: Conn, batch: dict[Identity, AddProxy], added: dict[Identity, int], *, domain: str, priority: int
    ) -> int:
        """Known ones too: the list says what the pool shall hold."""
        known = await imports.find_many(conn, identities=[key for key in batch if key not in added])
        proxy_ids = sorted({*added.values(), *known.values()})
        return len(
            await pairs.assign_many(conn, domain=domain, proxy_ids=proxy_ids, priorities=[priority] * len(proxy_ids))
        )

    async def look(self, lines: Iterable[Entry | Refusal], *, defaults: dict[str, Any], domain: str | None) -> Outcome:
        """A dry run: the same checks, and nothing is written."""
        outcome = Outcome()
        for batch in _checked(lines, defaults, outcome):
            async with self.pool.acquire() as conn:
                known = await imports.find_many(conn, identities=list(batch))
            outcome.added += len(batch) - len(known)
            outcome.known += len(known)
            outcome.assigned += len(batch) if domain is not None else 0
        return outcome

    def _tell(self, outcome: Outcome) -> None:
        log.info("proxies_imported", added=outcome.added, known=outcome.known, refused=outcome.refused)
        for name in ("added", "known", "refused"):
            metrics.IMPORTED.labels(name).inc(getattr(outcome, name))


def _checked(
    lines: Iterable[Entry | Refusal], defaults: dict[str, Any], outcome: Outcome
) -> Iterator[dict[Identity, AddProxy]]:
    """Batches of proxies that may be added, each once; a line that repeats an earlier one counts as known."""
    seen: set[Identity] = set()
    source = iter(lines)
    while chunk := list(islice(source, BATCH)):
        batch: dict[Identity, AddProxy] = {}
        for line in chunk:
            proxy = line if isinstance(line, Refusal) else _check(line, defaults)
            if isinstance(proxy, Refusal):
                outcome.refuse(proxy)
                continue
            key = (proxy.protocol, proxy.host, proxy.port, proxy.username)
            if key in seen:
                outcome.known += 1
                continue
            seen.add(key)
            batch[key] = proxy
        if batch:
            yield batch


def _check(entry: Entry, defaults: dict[str, Any]) -> AddProxy | Refusal:
    try:
        return AddProxy.model_validate({**defaults, **entry.values})
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        return Refusal(entry.line, str(first["loc"][0]), first["msg"])
