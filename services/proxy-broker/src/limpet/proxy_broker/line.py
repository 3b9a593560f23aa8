"""Wants of one call that the same proxies can serve stand in one line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from limpet.proxy_broker.ladder import DIRECT, cheaper, climb
from limpet.proxy_broker.policy import StickyBy, Strategy
from limpet.proxy_broker.refusal import Reason, Refusal

Key = tuple[int, int]
HOUR_KEY = ""


class Want(NamedTuple):
    """What one request needs of a proxy. A tuple: one is made for every lease."""

    domain: str
    country: str
    task_id: int
    attempt: int
    ttl: timedelta
    session_key: str = ""
    direct_allowed: bool = False

    @property
    def key(self) -> Key:
        return self.task_id, self.attempt


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a person decided and the brokers learned about a domain, as far as leases go."""

    domain: str
    now: datetime
    pooled: bool
    strategy: Strategy
    sticky_by: StickyBy
    sticky_for: timedelta
    country: str
    tiers: tuple[str, ...]
    tier: str
    probe_due: bool
    held_until: datetime | None
    stopped_until: datetime | None

    @property
    def closed(self) -> Refusal | None:
        """Why the domain as a whole gets nothing now."""
        for reason, until in _REASONS:
            if (retry_at := getattr(self, until)) is not None:
                return Refusal(reason=reason, retry_at=retry_at)
        return None


_REASONS: tuple[tuple[Reason, str], ...] = (("domain_blocked", "held_until"), ("budget", "stopped_until"))


@dataclass(kw_only=True, slots=True)
class Line:
    """Wants of one domain that are served alike. Not frozen: a line moves on when what it asked for is not to be had."""

    group: int
    domain: str
    country: str
    pooled: bool
    # The first is asked for now; the others stand in where it has no proxy at all.
    tiers: tuple[str, ...]
    keys: list[Key] = field(default_factory=list)
    # None where any proxy will do for each want.
    session_key: str | None = None
    weighted: bool = False
    probe: str = ""
    # The one proxy that is asked for, 0 for any; a session waits for it, a draw does not.
    kept: int = 0
    # Taken last: the proxy of the hour before.
    avoided: int = 0
    limit: int = 0

    @property
    def tier(self) -> str:
        return self.tiers[0]

    @property
    def direct(self) -> bool:
        return self.tiers[0] == DIRECT

    @property
    def loyal(self) -> bool:
        return self.session_key is not None


def probes_due(wants: Iterable[Want], situations: Mapping[str, Situation]) -> dict[str, Want]:
    """The first want of each domain that may try the cheaper tier now."""
    due: dict[str, Want] = {}
    for want in wants:
        now = situations[want.domain]
        if now.probe_due and want.domain not in due and now.closed is None and _below(want, now):
            due[want.domain] = want
    return due


def line_up(
    wants: Mapping[Key, Want], situations: Mapping[str, Situation], *, probing: Collection[Key]
) -> tuple[list[Line], dict[Key, Refusal]]:
    """Every want in its line, or refused at once because its domain is."""
    lines: dict[tuple[object, ...], Line] = {}
    refused: dict[Key, Refusal] = {}
    closed = {domain: situation.closed for domain, situation in situations.items()}
    for key, want in wants.items():
        if (refusal := closed[want.domain]) is not None:
            refused[key] = refusal
            continue
        probes = key in probing
        now = situations[want.domain]
        session = _session(want, now)
        alike = (want.domain, want.country, session, want.direct_allowed, probes)
        line = lines.get(alike)
        if line is None:
            line = lines[alike] = _line(want, now, session, group=len(lines), probes=probes)
        line.keys.append(key)
    return list(lines.values()), refused


def _line(want: Want, now: Situation, session: str | None, *, group: int, probes: bool) -> Line:
    tiers = climb(now.tiers, reached=now.tier, direct_allowed=want.direct_allowed)
    below = _below(want, now) if probes else None
    return Line(
        group=group,
        domain=want.domain,
        country=want.country or now.country,
        pooled=now.pooled,
        tiers=tiers if below is None else (below, *tiers),
        session_key=session if below is None else None,
        weighted=now.strategy == "weighted",
        probe="" if below is None else "tier",
    )


def _session(want: Want, now: Situation) -> str | None:
    if now.strategy != "sticky":
        return None
    return want.session_key if now.sticky_by == "session" else HOUR_KEY


def _below(want: Want, now: Situation) -> str | None:
    return cheaper(now.tiers, reached=now.tier, direct_allowed=want.direct_allowed)
