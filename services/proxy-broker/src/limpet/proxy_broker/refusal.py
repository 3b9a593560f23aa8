"""Why there is no proxy now, and when asking again is worth it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

Reason = Literal["no_pool", "no_country", "disabled", "busy", "limited", "cooling"]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the pool of one group looks like, read without locks."""

    group: int
    now: datetime
    members: int
    fitting: int
    enabled: int
    ready: int
    limited: int
    ready_at: datetime | None
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
    if survey.ready_at is not None:
        return Refusal(reason="limited" if survey.limited else "cooling", retry_at=survey.ready_at)
    reason: Reason = "disabled" if survey.fitting else "no_country" if survey.members else "no_pool"
    return Refusal(reason=reason, retry_at=survey.now + patience.hopeless)
