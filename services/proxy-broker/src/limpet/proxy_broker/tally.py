"""The reports of one call, sorted by whom they are about. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from limpet.proxy_broker.blame import Outcome, Probe, Use

PairKey = tuple[str, int]


class Ended(NamedTuple):
    """A lease that was just closed. No proxy: the direct way."""

    proxy_id: int | None
    domain: str
    probe: Probe


class Sign(NamedTuple):
    """What one use says about its domain. Proxy 0 stands for the direct way."""

    proxy_id: int
    outcome: Outcome
    probe: Probe


@dataclass(slots=True)
class Tally:
    """Uses in their order. A failed probe is no use: it is only a reason to wait longer."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    closed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    of_proxy: dict[int, list[Use]] = field(default_factory=lambda: defaultdict(list))
    of_pair: dict[PairKey, list[Use]] = field(default_factory=lambda: defaultdict(list))
    ill_proxies: set[int] = field(default_factory=set)
    ill_pairs: set[PairKey] = field(default_factory=set)
    signs: dict[str, list[Sign]] = field(default_factory=lambda: defaultdict(list))
    # Domains where a site's refusal or a tier's probe is among the signs.
    eventful: set[str] = field(default_factory=set)


def tally(uses: Iterable[Use], ended: Mapping[int, Ended]) -> Tally:
    """The first report of a lease counts, also within one call; leases that were not open count nowhere."""
    found = Tally()
    left = dict(ended)
    outcomes, closed, signs = found.outcomes, found.closed, found.signs
    of_proxy, of_pair = found.of_proxy, found.of_pair
    for use in uses:
        lease = left.pop(use.lease_id, None)
        if lease is None:
            continue
        proxy_id, domain, probe = lease
        outcome = use.outcome
        outcomes[outcome] += 1
        signs[domain].append(Sign(proxy_id or 0, outcome, probe))
        if outcome == "blocked" or probe == "tier":
            found.eventful.add(domain)
        if proxy_id is None:
            continue
        closed[proxy_id] += 1
        if probe and _probe_failed(probe, outcome):
            if probe == "proxy":
                found.ill_proxies.add(proxy_id)
            elif probe == "pair":
                found.ill_pairs.add((domain, proxy_id))
            continue
        of_proxy[proxy_id].append(use)
        of_pair[domain, proxy_id].append(use)
    return found


def _probe_failed(probe: Probe, outcome: Outcome) -> bool:
    """A proxy's probe that was refused by the site came through the proxy: that is an ordinary block."""
    return outcome == "proxy_failed" or (outcome == "blocked" and probe != "proxy")
