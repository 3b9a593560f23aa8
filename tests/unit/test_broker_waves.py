"""When a domain trips instead of its proxies, and which tier it uses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from limpet.proxy_broker import tier, wave
from limpet.proxy_broker.blame import Outcome, Probe
from limpet.proxy_broker.domain_state import DomainState
from limpet.proxy_broker.policy import Kind, Tier
from limpet.proxy_broker.signs import Heard, hear
from limpet.proxy_broker.tally import Sign
from limpet.proxy_broker.tier import TierRule
from limpet.proxy_broker.wave import WaveRule

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CALM = DomainState(domain="shop.test")
WAVES, PROBES = WaveRule(), TierRule()
LADDER: tuple[Tier, ...] = ("direct", "datacenter", "residential")
KINDS: dict[int, Kind] = {1: "datacenter", 2: "datacenter", 3: "datacenter", 8: "residential", 9: "residential"}


def heard(
    state: DomainState,
    *signs: tuple[int, Outcome] | tuple[int, Outcome, Probe],
    tiers: tuple[Tier, ...] = (),
    now: datetime = NOW,
) -> Heard:
    told = [Sign(sign[0], sign[1], sign[2] if len(sign) == 3 else "") for sign in signs]
    return hear(state, told, kinds=KINDS, tiers=tiers, now=now, waves=WAVES, probes=PROBES)


def test_three_distinct_proxies_are_a_wave_and_one_thrice_is_not() -> None:
    same = heard(CALM, (1, "blocked"), (1, "blocked"), (1, "blocked")).state
    assert same.wave == (1, 1, 1)
    assert not wave.has_broken(same, proxies=3, others=True)
    assert wave.has_broken(heard(same, (2, "blocked"), (3, "blocked")).state, proxies=3, others=True)


def test_a_success_between_ends_the_wave() -> None:
    after = heard(CALM, (1, "blocked"), (2, "blocked"), (3, "success"), (3, "blocked"))
    assert after.state.wave == (3,)
    assert heard(after.state, (1, "success")).refused is None


def test_a_wave_older_than_its_window_is_forgotten() -> None:
    old = heard(CALM, (1, "blocked"), (2, "blocked")).state
    assert heard(old, (3, "blocked"), now=NOW + WAVES.window).state.wave == (3,)
    assert heard(old, (3, "blocked"), now=NOW + WAVES.window - timedelta(seconds=1)).state.wave == (1, 2, 3)


def test_all_that_there_are_is_a_wave_too() -> None:
    one = heard(CALM, (1, "blocked")).state
    assert wave.has_broken(one, proxies=3, others=False)
    assert not wave.has_broken(CALM, proxies=3, others=False)


def test_holds_grow_to_their_maximum_and_a_success_begins_anew() -> None:
    state, now, lengths = CALM, NOW, []
    for _ in range(10):
        state = wave.held(heard(state, (1, "blocked"), now=now).state, now=now, rule=WAVES)
        assert state.held_until is not None
        lengths.append((state.held_until - now) // timedelta(minutes=1))
        now = state.held_until
    assert lengths == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1440]
    assert heard(state, (1, "success"), now=now).state == CALM


def test_what_comes_late_in_a_hold_changes_nothing_and_is_forgiven() -> None:
    held = wave.held(CALM, now=NOW, rule=WAVES)
    late = heard(held, (1, "blocked"), (2, "success"), (1, "blocked"))
    assert (late.state, dict(late.late)) == (held, {1: 2})


def test_a_pair_on_probation_and_failures_in_transport_make_no_wave() -> None:
    assert heard(CALM, (1, "blocked", "pair"), (2, "proxy_failed"), (3, "site_failed"), (3, "unused")).state == CALM


def test_the_next_dearer_tier_that_has_a_proxy() -> None:
    assert tier.current(CALM, LADDER) == "direct"
    assert tier.dearer(CALM, LADDER, than="direct", present={"datacenter", "residential"}) == "datacenter"
    assert tier.dearer(CALM, LADDER, than="direct", present={"residential"}) == "residential"
    # A request that must not go direct starts higher; its refusals say nothing of what is below.
    assert tier.dearer(CALM, LADDER, than="datacenter", present={"datacenter", "residential"}) == "residential"
    assert tier.dearer(CALM, LADDER, than="residential", present={"residential"}) is None
    assert tier.dearer(CALM, (), than="datacenter", present={"residential"}) is None


def test_a_tier_that_the_policy_no_longer_has_counts_as_the_cheapest() -> None:
    assert tier.current(DomainState(domain="a.test", tier="mobile"), LADDER) == "direct"
    assert tier.current(CALM, ()) is None


def test_after_a_climb_a_probe_is_due_in_an_hour_and_each_refused_one_doubles_that_up_to_a_day() -> None:
    state = tier.climbed(CALM, "residential", now=NOW, rule=PROBES)
    assert (state.tier, state.tier_changed_at, state.tier_probe_at) == ("residential", NOW, NOW + HOUR)
    waits = []
    for _ in range(6):
        state = heard(state, (1, "blocked", "tier"), tiers=LADDER).state
        assert state.tier_probe_at is not None
        waits.append((state.tier_probe_at - NOW) // HOUR)
    assert waits == [2, 4, 8, 16, 24, 24]
    assert (state.tier, state.wave) == ("residential", ())


def test_a_good_probe_lowers_the_tier_and_looks_further_down_later() -> None:
    state = tier.climbed(CALM, "residential", now=NOW, rule=PROBES)
    down = heard(state, (1, "success", "tier"), tiers=LADDER, now=NOW + HOUR)
    assert down.lowered
    assert (down.state.tier, down.state.tier_probe_at) == ("datacenter", NOW + 2 * HOUR)
    bottom = heard(down.state, (0, "success", "tier"), tiers=LADDER, now=NOW + 2 * HOUR).state
    assert (bottom.tier, bottom.tier_probe_at) == ("direct", None)


def test_a_climb_soon_after_a_descent_waits_longer_and_long_after_it_does_not() -> None:
    state = tier.climbed(CALM, "datacenter", now=NOW, rule=PROBES)
    down = tier.lowered(state, "direct", LADDER, now=NOW + HOUR, rule=PROBES)
    soon, late = NOW + 2 * HOUR, NOW + 100 * HOUR
    assert tier.climbed(down, "datacenter", now=soon, rule=PROBES).tier_probe_at == soon + 2 * HOUR
    assert tier.climbed(down, "datacenter", now=late, rule=PROBES).tier_probe_at == late + HOUR


def test_refusals_of_a_tier_left_behind_are_late() -> None:
    state = tier.climbed(CALM, "residential", now=NOW, rule=PROBES)
    late = heard(state, (1, "blocked"), (2, "success"), (0, "blocked"), tiers=LADDER)
    assert (late.state, dict(late.late), late.lowered) == (state, {1: 1, 0: 1}, False)
    above = heard(state, (8, "blocked"), tiers=LADDER)
    assert (above.state.wave, above.refused) == ((8,), "residential")


def test_a_direct_use_means_nothing_to_a_policy_without_it() -> None:
    assert heard(CALM, (0, "blocked"), tiers=("datacenter",)).state == CALM
