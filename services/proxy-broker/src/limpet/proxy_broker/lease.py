"""Lease: wants in, one grant or refusal each, in one transaction of a handful of statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from limpet.kit.pg import Conn, Pool
from limpet.proxy_broker.blame import Threshold
from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.refusal import Patience, Refusal, refuse
from limpet.proxy_broker.store import changes, leases, pair_health, pools, proxy_health
from limpet.proxy_broker.store.leases import Key, NewLease, OpenLease
from limpet.proxy_broker.store.pools import Group
from limpet.proxy_broker.strategy import Candidate, choose
from limpet.proxy_broker.vault import Vault

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Want:
    """What one request needs of a proxy."""

    domain: str
    country: str
    task_id: int
    attempt: int
    ttl: timedelta

    @property
    def key(self) -> Key:
        return self.task_id, self.attempt


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A lease with what is needed to connect."""

    lease_id: int
    proxy_id: int
    protocol: str
    host: str
    port: int
    username: str
    password: str = field(repr=False)
    expires_at: datetime


class _Crowded(Exception):  # not an error: roll back, wait for these proxies, try again
    def __init__(self, proxy_ids: set[int]) -> None:
        super().__init__("others hold proxies that look free")
        self.proxy_ids = sorted(proxy_ids)


@dataclass(frozen=True, kw_only=True)
class _Taken:
    """What the locks gave."""

    groups: list[Group]
    group_of: dict[Key, int]
    locked: set[int]
    passwords: dict[int, str]
    chosen: dict[Key, Candidate]


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Gives proxies out. Any number of brokers may run: limits are decided on the proxy's locked row."""

    pool: Pool
    vault: Vault
    proxy: Threshold
    pair: Threshold
    patience: Patience

    async def lease(self, wants: Sequence[Want], *, holder: str) -> list[Grant | Refusal]:
        """One answer per want, in the same order."""
        waiting_for: list[int] = []
        async with self.pool.acquire() as conn:
            while True:
                try:
                    async with conn.transaction():
                        return await self._answer(conn, wants, holder=holder, waiting_for=waiting_for)
                except _Crowded as crowded:
                    # Only after the rollback has released our locks may we wait for those of others.
                    waiting_for = crowded.proxy_ids

    async def _answer(
        self, conn: Conn, wants: Sequence[Want], *, holder: str, waiting_for: list[int]
    ) -> list[Grant | Refusal]:
        if waiting_for:
            await proxy_health.lock(conn, proxy_ids=waiting_for)
        held = await leases.find(conn, keys=[want.key for want in wants])
        fresh = {want.key: want for want in wants if want.key not in held}
        answers: dict[Key, Grant | Refusal] = {key: self._again(lease) for key, lease in held.items()}
        if fresh:
            taken = await self._take(conn, fresh)
            answers |= await self._give(conn, fresh, taken, holder=holder)
            if len(taken.chosen) < len(fresh):
                answers |= await self._refuse(conn, fresh, taken, final=bool(waiting_for))
        return [answers[want.key] for want in wants]

    async def _take(self, conn: Conn, fresh: dict[Key, Want]) -> _Taken:
        """Lock candidates for all wants of a domain and country together, and choose."""
        own = await pools.pooled(conn, domains=sorted({want.domain for want in fresh.values()}))
        names = {name: n for n, name in enumerate(dict.fromkeys((w.domain, w.country) for w in fresh.values()))}
        groups = [
            Group(group=n, domain=domain, country=country, pooled=domain in own)
            for (domain, country), n in names.items()
        ]
        group_of = {key: names[want.domain, want.country] for key, want in fresh.items()}
        candidates, passwords = await self._candidates(conn, groups, limit=len(fresh))
        chosen = zip(fresh, choose(list(group_of.values()), candidates), strict=True)
        return _Taken(
            groups=groups,
            group_of=group_of,
            locked=set(passwords),
            passwords=passwords,
            chosen={key: candidate for key, candidate in chosen if candidate is not None},
        )

    async def _candidates(
        self, conn: Conn, groups: Sequence[Group], *, limit: int
    ) -> tuple[list[Candidate], dict[int, str]]:
        """Locked candidates and their passwords. Where one does not open, its proxy is set aside and others are taken."""
        own, shared = [g for g in groups if g.pooled], [g for g in groups if not g.pooled]
        limits = {"limit": limit, "proxy_failures": self.proxy.failures, "pair_failures": self.pair.failures}
        while True:
            found = await pools.take_own(conn, groups=own, **limits) if own else []
            found += await pools.take_shared(conn, groups=shared, **limits) if shared else []
            passwords, broken = self._open_all(found)
            if not broken:
                return found, passwords
            log.error("secrets_unreadable", proxy_ids=broken)
            await proxy_health.cool(conn, proxy_ids=broken, length=max(self.proxy.cooldown, timedelta(minutes=1)))
            await changes.add(conn, proxy_ids=broken, active=False, reason="secret_unreadable")

    async def _refuse(
        self, conn: Conn, fresh: dict[Key, Want], taken: _Taken, *, final: bool
    ) -> dict[Key, Grant | Refusal]:
        """Say why. Where others hold the locks of what looks free, the first try gives up to wait for it."""
        short = [key for key in fresh if key not in taken.chosen]
        groups = [taken.groups[n] for n in sorted({taken.group_of[key] for key in short})]
        found = await pools.survey(conn, groups=groups, limit=len(fresh), proxy_failures=self.proxy.failures)
        free = {proxy_id for survey in found for proxy_id in survey.free}
        if not final and free - taken.locked:
            raise _Crowded(free | taken.locked)
        surveys = {survey.group: survey for survey in found}
        return {key: refuse(surveys[taken.group_of[key]], self.patience) for key in short}

    async def _give(
        self, conn: Conn, fresh: dict[Key, Want], taken: _Taken, *, holder: str
    ) -> dict[Key, Grant | Refusal]:
        chosen = taken.chosen
        if not chosen:
            return {}
        new = [
            NewLease(task_id=key[0], attempt=key[1], domain=fresh[key].domain, proxy_id=c.proxy_id, ttl=fresh[key].ttl)
            for key, c in chosen.items()
        ]
        opened = await leases.open_all(conn, leases=new, holder=holder)
        given = Counter(chosen[key].proxy_id for key in opened)
        if given:
            await proxy_health.charge(conn, given=given)
            await pair_health.touch(conn, keys={(fresh[key].domain, chosen[key].proxy_id) for key in opened})
        answers: dict[Key, Grant | Refusal] = {}
        for key, (lease_id, expires_at) in opened.items():
            candidate = chosen[key]
            answers[key] = _grant(candidate, lease_id, expires_at, taken.passwords[candidate.proxy_id])
        if raced := [key for key in chosen if key not in opened]:
            answers |= await self._raced(conn, raced)
        return answers

    async def _raced(self, conn: Conn, keys: list[Key]) -> dict[Key, Grant | Refusal]:
        """The same attempt asked twice at once: both get the one lease. A dead lease not yet collected: soon."""
        found = await leases.find(conn, keys=keys)
        soon = Refusal(reason="busy", retry_at=await leases.now(conn) + self.patience.busy)
        return {key: self._again(found[key]) if key in found else soon for key in keys}

    def _again(self, lease: OpenLease) -> Grant | Refusal:
        try:
            return _grant(lease, lease.lease_id, lease.expires_at, self._open(lease))
        except SecretUnreadable:  # its key was taken away since; the others in this call must not suffer
            return Refusal(reason="disabled", retry_at=lease.expires_at)

    def _open_all(self, found: Sequence[Candidate]) -> tuple[dict[int, str], list[int]]:
        """Passwords by proxy, and the proxies whose password no key opens."""
        passwords: dict[int, str] = {}
        broken: list[int] = []
        for proxy_id, candidate in {candidate.proxy_id: candidate for candidate in found}.items():
            try:
                passwords[proxy_id] = self._open(candidate)
            except SecretUnreadable:
                broken.append(proxy_id)
        return passwords, broken

    def _open(self, proxy: Candidate | OpenLease) -> str:
        if proxy.password_sealed is None:
            return ""
        return self.vault.open(proxy.password_sealed, proxy_id=proxy.proxy_id)


def _grant(proxy: Candidate | OpenLease, lease_id: int, expires_at: datetime, password: str) -> Grant:
    return Grant(
        lease_id=lease_id,
        proxy_id=proxy.proxy_id,
        protocol=proxy.protocol,
        host=proxy.host,
        port=proxy.port,
        username=proxy.username,
        password=password,
        expires_at=expires_at,
    )
