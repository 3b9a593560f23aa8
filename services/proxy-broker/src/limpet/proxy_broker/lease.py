"""Lease: wants in, one grant or refusal each, in one transaction of a handful of statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from random import Random

from limpet.kit.pg import Conn, Pool
from limpet.proxy_broker.blame import Threshold
from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.line import Key, Line, Situation, Want, line_up, probes_due
from limpet.proxy_broker.passwords import Passwords
from limpet.proxy_broker.refusal import Patience, Refusal
from limpet.proxy_broker.seek import Crowded, Found, Seek
from limpet.proxy_broker.store import domain_states, leases, pools, situations, stickies
from limpet.proxy_broker.store.leases import OpenLease
from limpet.proxy_broker.store.stickies import Session
from limpet.proxy_broker.vault import Vault

__all__ = ["Grant", "Lease", "Want"]


@dataclass(kw_only=True, slots=True)
class Grant:
    """A lease with what is needed to connect. Not frozen, which would cost three times as much for every lease."""

    lease_id: int
    expires_at: datetime
    proxy_id: int = 0
    protocol: str = ""
    host: str = ""
    port: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    direct: bool = False


@dataclass(frozen=True, kw_only=True)
class _Call:
    """What is asked for together, and where its domains stand."""

    wants: dict[Key, Want]
    situations: Mapping[str, Situation]
    probing: frozenset[Key]
    holders: Mapping[Key, str]

    @property
    def now(self) -> datetime:
        return next(iter(self.situations.values())).now


class _Outrun(Exception):  # not an error: another broker has just kept a different proxy for the same session
    pass


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Gives proxies out. Any number of brokers may run: limits are decided on the proxy's locked row."""

    pool: Pool
    vault: Vault
    proxy: Threshold
    pair: Threshold
    patience: Patience
    chance: Random = field(default_factory=Random)

    @cached_property
    def _passwords(self) -> Passwords:
        return Passwords(vault=self.vault, aside_for=max(self.proxy.cooldown, timedelta(minutes=1)))

    @cached_property
    def _seek(self) -> Seek:
        return Seek(
            passwords=self._passwords, proxy=self.proxy, pair=self.pair, patience=self.patience, chance=self.chance
        )

    async def lease(self, wants: Sequence[Want], *, holder: str) -> list[Grant | Refusal]:
        """One answer per want, in the same order."""
        [answers] = await self.lease_many([(wants, holder)])
        return answers

    async def lease_many(self, calls: Sequence[tuple[Sequence[Want], str]]) -> list[list[Grant | Refusal]]:
        """The wants of several callers, each with its holder, as one call: what they share is locked and counted once."""
        wants = {want.key: want for asked, _ in calls for want in asked}
        holders = {want.key: holder for asked, holder in calls for want in asked}
        async with self.pool.acquire() as conn:
            call = await self._prepare(conn, wants, holders=holders)
            answers = await self._settle(conn, call)
        return [[answers[want.key] for want in asked] for asked, _ in calls]

    async def _prepare(self, conn: Conn, wants: dict[Key, Want], *, holders: Mapping[Key, str]) -> _Call:
        """Before the transaction: a domain's state is locked last, but a tier's probe must be claimed first."""
        found = await situations.find(conn, domains=sorted({want.domain for want in wants.values()}))
        probing: frozenset[Key] = frozenset()
        if due := probes_due(wants.values(), found):
            claimed = await domain_states.claim_probes(conn, ttls={domain: want.ttl for domain, want in due.items()})
            probing = frozenset(due[domain].key for domain in claimed)
        return _Call(wants=wants, situations=found, probing=probing, holders=holders)

    async def _settle(self, conn: Conn, call: _Call) -> dict[Key, Grant | Refusal]:
        waiting_for: list[int] = []
        while True:
            try:
                async with conn.transaction():
                    return await self._answer(conn, call, waiting_for=waiting_for)
            except Crowded as crowded:
                # Only after the rollback has released our locks may we wait for those of others.
                waiting_for = crowded.proxy_ids
            except _Outrun:
                continue

    async def _answer(self, conn: Conn, call: _Call, *, waiting_for: list[int]) -> dict[Key, Grant | Refusal]:
        if waiting_for:
            await pools.wait_for(conn, proxy_ids=waiting_for)
        lines, refused = line_up(call.wants, call.situations, probing=call.probing)
        kept = await _recall(conn, lines, call)
        found = await self._seek.seek(conn, lines, now=call.now, final=bool(waiting_for))
        answers: dict[Key, Grant | Refusal] = {**refused, **found.refused}
        if found.chosen:
            answers |= await self._give(conn, call, found)
            await _keep(conn, call, found, kept)
        if len(answers) < len(call.wants) or found.refused or refused:
            missing = [key for key in call.wants if not isinstance(answers.get(key), Grant)]
            answers |= await self._held(conn, missing, call, answers)
        return answers

    async def _give(self, conn: Conn, call: _Call, found: Found) -> dict[Key, Grant | Refusal]:
        chosen, wants = found.chosen, call.wants
        opened = await leases.give(
            conn,
            keys=list(chosen),
            domains=[line.domain for line, _ in chosen.values()],
            proxies=[None if candidate is None else candidate.proxy_id for _, candidate in chosen.values()],
            probes=[line.probe or (candidate.probe if candidate else "") for line, candidate in chosen.values()],
            seconds=[wants[key].ttl.total_seconds() for key in chosen],
            holders=[call.holders[key] for key in chosen],
        )
        answers: dict[Key, Grant | Refusal] = {}
        for key, (lease_id, expires_at) in opened.items():
            proxy = chosen[key][1]
            if proxy is None:
                answers[key] = Grant(lease_id=lease_id, expires_at=expires_at, direct=True)
                continue
            answers[key] = Grant(
                lease_id=lease_id,
                expires_at=expires_at,
                proxy_id=proxy.proxy_id,
                protocol=proxy.protocol,
                host=proxy.host,
                port=proxy.port,
                username=proxy.username,
                password=self._passwords.open(proxy.proxy_id, proxy.password_sealed),
            )
        return answers

    async def _held(
        self, conn: Conn, missing: Sequence[Key], call: _Call, answers: Mapping[Key, Grant | Refusal]
    ) -> dict[Key, Grant | Refusal]:
        """An attempt that asks again, even at the same moment, gets the lease that it holds. A dead lease not yet
        collected: soon."""
        held = await leases.find(conn, keys=missing)
        soon = Refusal(reason="busy", retry_at=call.now + self.patience.busy)
        return {key: self._again(held[key]) if key in held else answers.get(key, soon) for key in missing}

    def _again(self, lease: OpenLease) -> Grant | Refusal:
        try:
            password = self._passwords.open(lease.proxy_id, lease.password_sealed)
        except SecretUnreadable:  # its key was taken away since; the others in this call must not suffer
            return Refusal(reason="disabled", retry_at=lease.expires_at)
        return Grant(
            lease_id=lease.lease_id,
            expires_at=lease.expires_at,
            proxy_id=lease.proxy_id,
            protocol=lease.protocol,
            host=lease.host,
            port=lease.port,
            username=lease.username,
            password=password,
            direct=lease.direct,
        )


async def _recall(conn: Conn, lines: Sequence[Line], call: _Call) -> dict[Session, int]:
    """Lines of sessions ask for the proxy they keep; a new hour takes the old one's last."""
    sessions = {(line.domain, line.session_key): line for line in lines if line.session_key is not None}
    if not sessions:
        return {}
    found = await stickies.find(conn, sessions=list(sessions))
    kept = {session: it.proxy_id for session, it in found.items() if it.valid}
    for line in lines:
        if line.session_key is None or (it := found.get((line.domain, line.session_key))) is None:
            continue
        if it.valid:
            line.kept = it.proxy_id
        elif call.situations[line.domain].sticky_by == "hour":
            line.avoided = it.proxy_id
    return kept


async def _keep(conn: Conn, call: _Call, found: Found, kept: Mapping[Session, int]) -> None:
    """Sessions keep what they got; another broker that was first with a different proxy wins."""
    chosen: dict[Session, int] = {}
    idle: dict[Session, timedelta] = {}
    for line, candidate in found.chosen.values():
        if line.session_key is None or candidate is None:
            continue
        session, now = (line.domain, line.session_key), call.situations[line.domain]
        if now.sticky_by == "session":
            idle[session] = now.sticky_for
        elif kept.get(session) == candidate.proxy_id:  # the hour ends when it ends
            continue
        chosen[session] = candidate.proxy_id
    if chosen and not await stickies.keep(conn, chosen=chosen, instead_of=kept, idle=idle):
        raise _Outrun
