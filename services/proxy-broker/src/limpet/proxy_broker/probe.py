"""Probe: a proxy whose cool-down is over is dialled by the broker itself before a fetcher may try it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import asyncpg
import structlog

from limpet.kit.pg import LOST, Pool
from limpet.proxy_broker import metrics
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.blame import Threshold, relapse
from limpet.proxy_broker.dial import Address, DialFailed, dial
from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.store import changes, convalescents
from limpet.proxy_broker.store.convalescents import Convalescent, Verdict
from limpet.proxy_broker.vault import Vault

log = structlog.get_logger()

AT_ONCE: Final = 20


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One broker at a time dials a proxy: to claim it is to lengthen its cool-down by what the probe may take."""

    pool: Pool
    vault: Vault
    announce: Announce
    threshold: Threshold
    every: timedelta
    target: str = ""
    timeout: timedelta = timedelta(seconds=5)
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    async def run(self) -> None:
        """A part."""
        while True:
            try:
                while await self.probe() == AT_ONCE:
                    pass
            except (*LOST, asyncpg.OperatorInterventionError) as error:
                log.warning("probes_postponed", error=repr(error))
            await asyncio.sleep(self.every.total_seconds())

    async def probe(self) -> int:
        """Dial those whose turn it is. A failed probe blames nobody and counts nowhere: it is only a longer wait."""
        async with self.pool.acquire() as conn:
            # A little before the time, so that no fetcher finds it first.
            found = await convalescents.claim(
                conn, limit=AT_ONCE, ahead=2 * self.every, claim_for=self.timeout + timedelta(seconds=30)
            )
        if not found:
            return 0
        reasons = await asyncio.gather(*[self._dial(one) for one in found])
        verdicts = [self._judge(one, why) for one, why in zip(found, reasons, strict=True)]
        await self._record(verdicts)
        for one, why in zip(found, reasons, strict=True):
            if why:
                log.warning("probe_failed", proxy_id=one.proxy_id, reason=why, relapses=one.relapses)
            metrics.PROBES.labels("failed" if why else "good").inc()
        return len(found)

    async def _dial(self, one: Convalescent) -> str:
        """Empty if the proxy is well, else why not, without a word of what was sent or received."""
        try:
            password = self.vault.open(one.password_sealed, proxy_id=one.proxy_id) if one.password_sealed else ""
            address = Address(
                protocol=one.protocol, host=one.host, port=one.port, username=one.username, password=password
            )
            async with asyncio.timeout(self.timeout.total_seconds()):
                await dial(address, target=self.target, tls=self.tls)
        except SecretUnreadable:
            return "password unreadable"
        except DialFailed as error:
            return str(error)
        except TimeoutError:
            return "timeout"
        except (OSError, EOFError, ValueError) as error:
            return type(error).__name__
        return ""

    def _judge(self, one: Convalescent, why: str) -> Verdict:
        if not why:
            return Verdict(proxy_id=one.proxy_id, claimed_until=one.claimed_until)
        relapses, length = relapse(one.relapses, one.relapsed_at, now=one.now, threshold=self.threshold)
        # Where cool-downs are 0, a dead proxy is still not dialled all the time.
        rest = max(length, timedelta(seconds=1))
        return Verdict(proxy_id=one.proxy_id, claimed_until=one.claimed_until, relapses=relapses, cooling_for=rest)

    async def _record(self, verdicts: Sequence[Verdict]) -> None:
        async with self.pool.acquire() as conn, conn.transaction():
            back = await convalescents.record(conn, verdicts=verdicts)
            if back:
                await changes.add(conn, proxy_ids=back, active=True, reason="cooldown_over")
        if back:
            log.info("proxies_back", proxy_ids=back)
            self.announce.wake()
