"""Why there is no proxy now, and when asking again is worth it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

Wait = Literal["limited", "cooling", "blocked"]
Reason = Wait | Literal["no_pool", "no_country", "no_match", "disabled", "budget", "busy", "domain_blocked"]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the pool of one line looks like, read without locks. Each number counts among those of the one before."""

    group: int
    now: datetime
    members: int
    in_country: int
    matching: int
    enabled: int
    funded: int
    ready: int
    ready_at: datetime | None
    waits_for: Wait | None
    next_month: datetime
    free: list[int]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """No lease; the reason is from a closed set."""

    reason: Reason
    retry_at: datetime


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait where the pool itself names no time."""

    busy: timedelta = timedelta(seconds=1)
    hopeless: timedelta = timedelta(seconds=60)


def refuse(survey: Survey, patience: Patience) -> Refusal:
    """The nearest reason wins: busy passes sooner than a limit, a limit sooner than a person's decision."""
    if survey.ready:
        return Refusal(reason="busy", retry_at=survey.now + patience.busy)
    if survey.ready_at is not None and survey.waits_for is not None:
        return Refusal(reason=survey.waits_for, retry_at=survey.ready_at)
    if survey.enabled:
        return Refusal(reason="budget", retry_at=survey.next_month)
    reason: Reason = "no_pool"
    if survey.matching:
        reason = "disabled"
    elif survey.members:
        reason = "no_match" if survey.in_country else "no_country"
    return Refusal(reason=reason, retry_at=survey.now + patience.hopeless)
