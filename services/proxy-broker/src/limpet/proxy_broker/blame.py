"""What reports say about a proxy and about a pair, and when either must cool down."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from limpet.proxy_broker.shares import BLOCK_PRIOR, SUCCESS_PRIOR, learned

Outcome = Literal["success", "proxy_failed", "blocked", "site_failed", "unused"]
Scope = Literal["proxy", "pair"]
Probe = Literal["", "proxy", "pair", "tier"]

WEIGHT: Final = 0.2  # of the newest response time in the moving average
ERROR_LENGTH: Final = 200
# Addresses with credentials have no place in a table that people read.
_CREDENTIALS: Final = re.compile(r"//[^/\s@]*@")


@dataclass(slots=True, kw_only=True)
class Use:
    """How one lease went. Not frozen: there are thousands in a second, and freezing costs more than the rest of it."""

    lease_id: int
    outcome: Outcome
    response_ms: int
    error: str = ""
    byte_count: int = 0


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """How many failures in a row are too many, and what follows."""

    failures: int
    cooldown: timedelta
    cooldown_max: timedelta = timedelta(days=1)


@dataclass(slots=True)
class Health:
    """What we know of a proxy or a pair, and below the line what the reports in hand add to its totals."""

    consecutive_failures: int = 0
    avg_response_ms: float | None = None
    cooling_until: datetime | None = None
    relapses: int = 0
    relapsed_at: datetime | None = None
    success_share: float | None = None
    block_share: float | None = None
    shared_at: datetime | None = None
    # Pairs only: the blocklist.
    blocked_until: datetime | None = None
    # ----
    successes: int = 0
    failures: int = 0
    blocks: int = 0
    byte_count: int = 0
    last_error: str = ""
    cooled: bool = False


def judge(health: Health, uses: Iterable[Use], *, scope: Scope, now: datetime, threshold: Threshold) -> None:
    """Learn from these uses, in their order."""
    of_pair = scope == "pair"
    for use in uses:
        outcome = use.outcome
        health.byte_count += use.byte_count
        if outcome == "success":
            health.successes += 1
            health.consecutive_failures = 0
            if use.response_ms:  # 0 means that nobody measured it
                average = health.avg_response_ms
                new = use.response_ms
                health.avg_response_ms = float(new) if average is None else average + WEIGHT * (new - average)
        elif outcome == "proxy_failed" or (of_pair and outcome == "blocked"):
            health.failures += 1
            health.consecutive_failures += 1
            health.last_error = use.error or health.last_error
            health.blocks += outcome == "blocked"
            if health.consecutive_failures >= threshold.failures:
                cool(health, now=now, threshold=threshold)
        elif outcome == "blocked":
            # The site's judgement of the pair: it must not take the proxy away from every other domain.
            health.blocks += 1
        elif outcome == "site_failed" and not of_pair:  # the proxy did its work
            health.consecutive_failures = 0
    samples = health.successes + health.failures + (0 if of_pair else health.blocks)
    seconds = 0.0 if health.shared_at is None else (now - health.shared_at).total_seconds()
    health.success_share = learned(
        health.success_share, hits=health.successes, samples=samples, prior=SUCCESS_PRIOR, seconds=seconds
    )
    health.block_share = learned(
        health.block_share, hits=health.blocks, samples=samples, prior=BLOCK_PRIOR, seconds=seconds
    )


def cool(health: Health, *, now: datetime, threshold: Threshold) -> None:
    """Set aside, each time for longer. Late failures of leases given before a cool-down do not lengthen it."""
    if health.cooling_until is not None and health.cooling_until > now:
        return
    health.relapses, length = relapse(health.relapses, health.relapsed_at, now=now, threshold=threshold)
    health.cooling_until = now + length
    health.relapsed_at = now
    health.cooled = True


def relapse(
    relapses: int, relapsed_at: datetime | None, *, now: datetime, threshold: Threshold
) -> tuple[int, timedelta]:
    """How often it was ill by now, and how long it must rest."""
    # Ill again soon after the last time: the longest cool-down may lie between, so memory is twice as long.
    again = relapsed_at is not None and relapsed_at > now - 2 * threshold.cooldown_max
    relapses = relapses + 1 if again else 1
    return relapses, min(threshold.cooldown * 2 ** min(relapses - 1, 16), threshold.cooldown_max)


def forgive(health: Health, *, blocks: int, since: datetime, threshold: Threshold) -> None:
    """So many blocks of this pair were the domain's doing: they count in its totals and for nothing else."""
    health.blocked_until = None
    health.consecutive_failures = max(0, health.consecutive_failures - blocks)
    cooled = health.cooling_until is not None and health.relapsed_at is not None and health.relapsed_at >= since
    if cooled and health.consecutive_failures < threshold.failures:
        health.cooling_until = None
        health.relapses = max(0, health.relapses - 1)
        health.cooled = False


def blocklist(health: Health, *, kind: str, now: datetime, cooldown: timedelta) -> None:
    """After a block: a datacenter proxy stays away from this site for a while. Others only change their session."""
    if kind == "datacenter":
        health.blocked_until = now + cooldown


def clean(error: str) -> str:
    """An error as a table may keep it: short, and without anybody's credentials."""
    return _CREDENTIALS.sub("//", error.replace("\0", ""))[:ERROR_LENGTH]
