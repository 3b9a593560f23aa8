"""Who is to blame for what, and what follows from it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from limpet.proxy_broker.blame import Health, Outcome, Scope, Threshold, Use, blocklist, clean, cool, forgive, judge
from limpet.proxy_broker.shares import HALF_LIFE, faded, learned
from limpet.proxy_broker.tally import Ended, tally

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEN = Threshold(failures=10, cooldown=timedelta(minutes=60))
FIVE = Threshold(failures=5, cooldown=timedelta(minutes=30))


def after(
    health: Health, *outcomes: Outcome, scope: Scope = "proxy", now: datetime = NOW, threshold: Threshold = TEN
) -> Health:
    """Health as the next report finds it."""
    health = Health(**asdict(health))
    uses = [Use(lease_id=n, outcome=outcome, response_ms=100) for n, outcome in enumerate(outcomes)]
    judge(health, uses, scope=scope, now=now, threshold=threshold)
    return health


def times(count: int, outcome: Outcome) -> list[Outcome]:
    return [outcome] * count


def test_b4_the_tenth_failure_in_a_row_cools_and_the_ninth_does_not() -> None:
    nine = after(Health(), *times(9, "proxy_failed"))
    assert (nine.cooling_until, nine.cooled) == (None, False)
    ten = after(nine, "proxy_failed")
    assert (ten.cooling_until, ten.cooled) == (NOW + timedelta(minutes=60), True)


def test_b4_a_success_ends_the_row_but_not_the_totals() -> None:
    health = after(Health(), *times(9, "proxy_failed"), "success", *times(9, "proxy_failed"))
    assert health.cooling_until is None
    assert (health.successes, health.failures, health.consecutive_failures) == (1, 18, 9)


def test_b4_late_failures_do_not_lengthen_a_cooldown() -> None:
    cooling = after(Health(), *times(10, "proxy_failed"))
    later = after(cooling, *times(5, "proxy_failed"), now=NOW + timedelta(minutes=1))
    assert (later.cooling_until, later.relapses) == (cooling.cooling_until, 1)


def test_b4_each_relapse_doubles_the_cooldown_up_to_a_day() -> None:
    health, now, lengths = Health(), NOW, []
    for _ in range(7):
        health = after(health, *times(10, "proxy_failed"), now=now)
        assert health.cooling_until is not None
        lengths.append(health.cooling_until - now)
        now = health.cooling_until
    assert lengths == [timedelta(hours=hours) for hours in (1, 2, 4, 8, 16, 24, 24)]


def test_b4_a_failed_probe_cools_for_longer_and_counts_nowhere() -> None:
    ill = after(Health(), *times(10, "proxy_failed"))
    assert ill.cooling_until is not None
    again = Health(**asdict(ill))
    cool(again, now=ill.cooling_until, threshold=TEN)
    assert again.cooling_until == ill.cooling_until + timedelta(hours=2)
    assert (again.failures, again.consecutive_failures) == (ill.failures, ill.consecutive_failures)


def test_b4_a_relapse_long_ago_is_forgiven() -> None:
    once = after(Health(), *times(10, "proxy_failed"))
    again = after(once, "success", *times(10, "proxy_failed"), now=NOW + timedelta(days=3))
    assert again.cooling_until == NOW + timedelta(days=3, hours=1)


def test_b4_a_block_blames_the_pair_and_not_the_proxy() -> None:
    proxy = after(Health(), *times(20, "blocked"))
    assert (proxy.cooling_until, proxy.consecutive_failures, proxy.failures, proxy.blocks) == (None, 0, 0, 20)
    pair = after(Health(), *times(20, "blocked"), scope="pair")
    assert pair.cooling_until is not None
    assert (pair.failures, pair.blocks) == (20, 20)


def test_b4_a_failing_site_and_an_unused_lease_blame_nobody() -> None:
    sick = after(Health(), *times(3, "proxy_failed"))
    assert after(sick, "unused").consecutive_failures == 3
    assert after(sick, "site_failed").consecutive_failures == 0
    assert after(sick, "site_failed", scope="pair").consecutive_failures == 3
    assert after(sick, "site_failed", "unused").failures == 3


def test_b4_the_average_moves_slowly_and_ignores_what_was_not_measured() -> None:
    first = after(Health(), "success")
    assert first.avg_response_ms == 100
    judge(first, [Use(lease_id=1, outcome="success", response_ms=600)], scope="proxy", now=NOW, threshold=TEN)
    assert first.avg_response_ms == pytest.approx(200)
    judge(first, [Use(lease_id=2, outcome="success", response_ms=0)], scope="proxy", now=NOW, threshold=TEN)
    assert first.avg_response_ms == pytest.approx(200)


def test_b5_only_a_datacenter_proxy_is_blocklisted_and_zero_means_zero() -> None:
    half = timedelta(minutes=30)
    for kind, cooldown, until in [
        ("datacenter", half, NOW + half),
        ("datacenter", timedelta(0), NOW),
        ("residential", half, None),
        ("mobile", half, None),
    ]:
        health = Health()
        blocklist(health, kind=kind, now=NOW, cooldown=cooldown)
        assert health.blocked_until == until


def test_b5_a_kept_error_is_short_and_names_no_credentials() -> None:
    assert (
        clean("cannot reach http://me:pa55@proxy.test:1 or socks5://x@y\0")
        == "cannot reach http://proxy.test:1 or socks5://y"
    )
    assert len(clean("x" * 5000)) == 200


def test_a_wave_takes_its_own_blocks_back_and_no_other_failure() -> None:
    before = after(Health(), *times(3, "proxy_failed"), scope="pair", threshold=FIVE, now=NOW - timedelta(hours=1))
    pair = after(before, *times(4, "blocked"), scope="pair", threshold=FIVE)
    assert pair.cooled
    forgive(pair, blocks=4, since=NOW, threshold=FIVE)
    assert (pair.consecutive_failures, pair.cooling_until, pair.relapses, pair.cooled) == (3, None, 0, False)
    assert (pair.failures, pair.blocks) == (7, 4)


def test_a_wave_does_not_end_a_cooldown_that_others_earned() -> None:
    pair = after(Health(), *times(5, "proxy_failed"), "blocked", scope="pair", threshold=FIVE)
    forgive(pair, blocks=1, since=NOW, threshold=FIVE)
    assert (pair.consecutive_failures, pair.cooling_until) == (5, NOW + timedelta(minutes=30))
    old = after(Health(), *times(5, "blocked"), scope="pair", threshold=FIVE)
    forgive(old, blocks=5, since=NOW + timedelta(seconds=1), threshold=FIVE)
    assert old.cooling_until == NOW + timedelta(minutes=30)


def test_the_first_sample_seeds_a_share_and_later_ones_move_it() -> None:
    assert learned(None, hits=0, samples=0, prior=0.5, seconds=0) is None
    assert learned(None, hits=1, samples=1, prior=0.5, seconds=0) == 1.0
    assert learned(1.0, hits=0, samples=1, prior=0.5, seconds=0) == pytest.approx(0.9)
    assert learned(1.0, hits=0, samples=2, prior=0.5, seconds=0) == pytest.approx(0.81)
    assert learned(0.4, hits=0, samples=0, prior=0.5, seconds=9e9) == 0.4


def test_a_share_fades_to_the_prior_by_its_half_life() -> None:
    half = HALF_LIFE.total_seconds()
    assert faded(1.0, prior=0.5, seconds=half) == pytest.approx(0.75)
    assert faded(0.0, prior=0.5, seconds=2 * half) == pytest.approx(0.375)
    assert faded(0.9, prior=0.0, seconds=-5) == 0.9


def test_the_first_report_of_a_lease_counts_and_strangers_count_nowhere() -> None:
    ended = {1: Ended(7, "a.test", ""), 2: Ended(None, "a.test", "")}
    told: list[tuple[int, Outcome]] = [(9, "success"), (1, "blocked"), (1, "success"), (2, "success")]
    uses = [Use(lease_id=lease_id, outcome=outcome, response_ms=1) for lease_id, outcome in told]
    counted = tally(uses, ended)
    assert dict(counted.outcomes) == {"blocked": 1, "success": 1}
    assert (dict(counted.closed), list(counted.of_pair)) == ({7: 1}, [("a.test", 7)])
    assert [sign.proxy_id for sign in counted.signs["a.test"]] == [7, 0]


@pytest.mark.parametrize(
    ("probe", "outcome", "ill_proxy", "ill_pair", "counts"),
    [
        ("proxy", "proxy_failed", True, False, False),
        ("proxy", "blocked", False, False, True),
        ("proxy", "success", False, False, True),
        ("pair", "proxy_failed", False, True, False),
        ("pair", "blocked", False, True, False),
        ("tier", "blocked", False, False, False),
        ("tier", "proxy_failed", False, False, False),
        ("tier", "success", False, False, True),
    ],
)
def test_b4_a_failed_probe_is_no_use(
    probe: str, outcome: Outcome, *, ill_proxy: bool, ill_pair: bool, counts: bool
) -> None:
    ended = {1: Ended(7, "a.test", probe)}  # type: ignore[arg-type]
    counted = tally([Use(lease_id=1, outcome=outcome, response_ms=1)], ended)
    assert (bool(counted.ill_proxies), bool(counted.ill_pairs)) == (ill_proxy, ill_pair)
    assert (7 in counted.of_proxy, counted.closed[7]) == (counts, 1)
