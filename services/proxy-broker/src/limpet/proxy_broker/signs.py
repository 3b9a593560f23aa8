"""What the uses of one call say about their domain. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from limpet.proxy_broker import tier, wave
from limpet.proxy_broker.domain_state import DomainState
from limpet.proxy_broker.policy import Kind, Tier
from limpet.proxy_broker.tally import Sign
from limpet.proxy_broker.tier import TierRule
from limpet.proxy_broker.wave import WaveRule


@dataclass(slots=True)
class Heard:
    """The state after these signs, before anybody looked whether the wave breaks."""

    state: DomainState
    # The dearest tier that was refused just now. None: nothing was.
    refused: Tier | None = None
    # Refusals of leases from before a hold or a climb: the domain's doing, known already.
    late: Counter[int] = field(default_factory=Counter)
    lowered: bool = False


def hear(
    state: DomainState,
    signs: Iterable[Sign],
    *,
    kinds: Mapping[int, Kind],
    tiers: Sequence[Tier],
    now: datetime,
    waves: WaveRule,
    probes: TierRule,
) -> Heard:
    """Take the signs in their order. What comes late, from before a hold or a climb, changes nothing."""
    heard = Heard(state)
    for sign in signs:
        if sign.outcome not in ("success", "blocked"):
            continue
        way: Tier = kinds[sign.proxy_id] if sign.proxy_id else "direct"
        if way == "direct" and "direct" not in tiers:  # the policy has changed since
            continue
        success = sign.outcome == "success"
        if sign.probe == "tier":
            if success:
                after = tier.lowered(heard.state, way, tiers, now=now, rule=probes)
                heard.lowered = heard.lowered or after is not heard.state
                heard.state = after
            else:
                heard.state = tier.put_off(heard.state, now=now, rule=probes)
        elif wave.is_held(heard.state, now=now) or tier.is_below(way, heard.state, tiers):
            if not success and sign.probe != "pair":
                heard.late[sign.proxy_id] += 1
        elif success:
            heard.state = wave.served(heard.state)
            heard.refused = None
        elif sign.probe != "pair":  # a pair on probation was ill before the wave
            heard.state = wave.refused(heard.state, sign.proxy_id, now=now, rule=waves)
            heard.refused = max(heard.refused or way, way, key=lambda one: tiers.index(one) if one in tiers else -1)
    return heard
