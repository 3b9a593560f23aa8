"""What a report says about a proxy and about a pair, and when either must cool down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

Outcome = Literal["success", "proxy_failed", "blocked", "site_failed", "unused"]
Verdict = Literal["success", "failure", "worked", "nothing"]

# A block is the site's judgement of the pair: it must not take the proxy away from every other domain.
OF_PROXY: Final[dict[Outcome, Verdict]] = {
    "success": "success",
    "proxy_failed": "failure",
    "blocked": "nothing",
    "site_failed": "worked",
    "unused": "nothing",
}
OF_PAIR: Final[dict[Outcome, Verdict]] = {**OF_PROXY, "blocked": "failure", "site_failed": "nothing"}

WEIGHT: Final = 0.2  # of the newest response time in the moving average


@dataclass(frozen=True, kw_only=True)
class Use:
    """How one lease went."""

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


@dataclass(frozen=True, kw_only=True)
class Health:
    """What we know of a proxy or a pair from its reports."""

    consecutive_failures: int = 0
    success_count: int = 0
    failure_count: int = 0
    block_count: int = 0
    avg_response_ms: float | None = None
    cooling_until: datetime | None = None
    relapses: int = 0
    relapsed_at: datetime | None = None
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None


def judge(
    health: Health, uses: Iterable[Use], *, blame: dict[Outcome, Verdict], now: datetime, threshold: Threshold
) -> Health:
    """Health after these uses, in their order."""
    for use in uses:
        verdict = blame[use.outcome]
        if use.outcome == "blocked":
            health = replace(health, block_count=health.block_count + 1)
        if verdict == "success":
            health = _praise(health, use, now=now)
        elif verdict == "failure":
            health = _cool(_count_failure(health, now=now), now=now, threshold=threshold)
        elif verdict == "worked":
            health = replace(health, consecutive_failures=0)
    return health


def _praise(health: Health, use: Use, *, now: datetime) -> Health:
    average = health.avg_response_ms
    if use.response_ms:  # 0 means that nobody measured it
        average = use.response_ms if average is None else average + WEIGHT * (use.response_ms - average)
    return replace(
        health,
        consecutive_failures=0,
        success_count=health.success_count + 1,
        avg_response_ms=average,
        last_success_at=now,
    )


def _count_failure(health: Health, *, now: datetime) -> Health:
    return replace(
        health,
        consecutive_failures=health.consecutive_failures + 1,
        failure_count=health.failure_count + 1,
        last_failure_at=now,
    )


def _cool(health: Health, *, now: datetime, threshold: Threshold) -> Health:
    """Late failures of leases given before the cool-down do not lengthen it."""
    cooling = health.cooling_until is not None and health.cooling_until > now
    if cooling or health.consecutive_failures < threshold.failures:
        return health
    # Ill again soon after the last time: the longest cool-down may lie between, so memory is twice as long.
    again = health.relapsed_at is not None and health.relapsed_at > now - 2 * threshold.cooldown_max
    relapses = health.relapses + 1 if again else 1
    length = min(threshold.cooldown * 2 ** min(relapses - 1, 16), threshold.cooldown_max)
    return replace(health, cooling_until=now + length, relapses=relapses, relapsed_at=now)
