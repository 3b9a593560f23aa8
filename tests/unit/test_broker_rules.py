"""The broker's pure rules: who is to blame, who gets what, why nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from limpet.proxy_broker.blame import OF_PAIR, OF_PROXY, Health, Outcome, Threshold, Use, Verdict, judge
from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.refusal import Patience, Survey, refuse
from limpet.proxy_broker.strategy import Candidate, choose
from limpet.proxy_broker.vault import Vault
from tests.support.sealing import sealing_key

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON = NOW + timedelta(seconds=9)
TEN = Threshold(failures=10, cooldown=timedelta(minutes=60))


def after(health: Health, *outcomes: Outcome, blame: dict[Outcome, Verdict] = OF_PROXY, now: datetime = NOW) -> Health:
    uses = [Use(lease_id=n, outcome=outcome, response_ms=100) for n, outcome in enumerate(outcomes)]
    return judge(health, uses, blame=blame, now=now, threshold=TEN)


def times(count: int, outcome: Outcome) -> list[Outcome]:
    return [outcome] * count


def candidate(proxy_id: int, *, group: int = 0, priority: int = 5, room: int = 1) -> Candidate:
    return Candidate(
        group=group,
        proxy_id=proxy_id,
        priority=priority,
        room=room,
        protocol="http",
        host="h",
        port=1,
        username="",
        password_sealed=None,
    )


def ids(chosen: list[Candidate | None]) -> list[int | None]:
    return [None if one is None else one.proxy_id for one in chosen]


def test_the_tenth_failure_in_a_row_cools_and_the_ninth_does_not() -> None:
    nine = after(Health(), *times(9, "proxy_failed"))
    assert nine.cooling_until is None
    assert after(nine, "proxy_failed").cooling_until == NOW + timedelta(minutes=60)


def test_a_success_ends_the_row_but_not_the_totals() -> None:
    health = after(Health(), *times(9, "proxy_failed"), "success", *times(9, "proxy_failed"))
    assert health.cooling_until is None
    assert (health.success_count, health.failure_count, health.consecutive_failures) == (1, 18, 9)


def test_late_failures_do_not_lengthen_a_cooldown() -> None:
    cooling = after(Health(), *times(10, "proxy_failed"))
    later = after(cooling, *times(5, "proxy_failed"), now=NOW + timedelta(minutes=1))
    assert (later.cooling_until, later.relapses) == (cooling.cooling_until, 1)


def test_each_relapse_doubles_the_cooldown_up_to_a_day() -> None:
    health, now, lengths = Health(), NOW, []
    for _ in range(7):
        health = after(health, *times(10, "proxy_failed"), now=now)
        assert health.cooling_until is not None
        lengths.append(health.cooling_until - now)
        now = health.cooling_until
    assert lengths == [timedelta(hours=hours) for hours in (1, 2, 4, 8, 16, 24, 24)]


def test_a_relapse_long_ago_is_forgiven() -> None:
    once = after(Health(), *times(10, "proxy_failed"))
    again = after(once, "success", *times(10, "proxy_failed"), now=NOW + timedelta(days=3))
    assert again.cooling_until == NOW + timedelta(days=3, hours=1)


def test_a_block_blames_the_pair_and_not_the_proxy() -> None:
    proxy = after(Health(), *times(20, "blocked"))
    assert (proxy.cooling_until, proxy.consecutive_failures, proxy.block_count) == (None, 0, 20)
    pair = after(Health(), *times(20, "blocked"), blame=OF_PAIR)
    assert pair.cooling_until is not None
    assert pair.block_count == 20


def test_a_failing_site_and_an_unused_lease_blame_nobody() -> None:
    sick = after(Health(), *times(3, "proxy_failed"))
    assert after(sick, "unused") == sick
    assert after(sick, "site_failed").consecutive_failures == 0
    assert after(sick, "site_failed", blame=OF_PAIR) == sick


def test_the_average_moves_slowly_and_ignores_what_was_not_measured() -> None:
    first = after(Health(), "success")
    assert first.avg_response_ms == 100
    slow = judge(first, [Use(lease_id=1, outcome="success", response_ms=600)], blame=OF_PROXY, now=NOW, threshold=TEN)
    assert slow.avg_response_ms == pytest.approx(200)
    silent = judge(slow, [Use(lease_id=2, outcome="success", response_ms=0)], blame=OF_PROXY, now=NOW, threshold=TEN)
    assert silent.avg_response_ms == slow.avg_response_ms


def test_least_recently_used_comes_first_and_goes_to_the_back() -> None:
    pool = [candidate(n, room=2) for n in (1, 2, 3)]
    assert ids(choose([0] * 7, pool)) == [1, 2, 3, 1, 2, 3, None]


def test_a_better_priority_is_used_up_before_a_worse_one() -> None:
    pool = [candidate(1, priority=9), candidate(2, priority=1, room=2), candidate(3, priority=1)]
    assert ids(choose([0] * 5, pool)) == [2, 3, 2, 1, None]


def test_two_domains_in_one_call_share_the_room_of_a_proxy() -> None:
    pool = [candidate(proxy_id, group=group) for group in (0, 1) for proxy_id in (1, 2)]
    assert ids(choose([0, 1, 0], pool)) == [1, 2, None]


def survey(**found: object) -> Survey:
    empty: dict[str, object] = {"members": 0, "fitting": 0, "enabled": 0, "ready": 0, "limited": 0}
    values = {**empty, "group": 0, "now": NOW, "ready_at": None, "free": [], **found}
    return Survey(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "reason", "retry"),
    [
        ({}, "no_pool", 60),
        ({"members": 2}, "no_country", 60),
        ({"members": 2, "fitting": 2}, "disabled", 60),
        ({"members": 2, "fitting": 2, "enabled": 2, "ready": 1, "ready_at": NOW}, "busy", 1),
        (
            {"members": 2, "fitting": 2, "enabled": 2, "limited": 1, "ready_at": NOW + timedelta(seconds=9)},
            "limited",
            9,
        ),
        ({"members": 2, "fitting": 2, "enabled": 2, "ready_at": NOW + timedelta(seconds=7)}, "cooling", 7),
    ],
)
def test_a_refusal_says_why_and_when_to_ask_again(found: dict[str, object], reason: str, retry: int) -> None:
    refusal = refuse(survey(**found), Patience())
    assert (refusal.reason, refusal.retry_at) == (reason, NOW + timedelta(seconds=retry))


def test_a_password_opens_only_for_its_own_proxy() -> None:
    vault = Vault(sealing_key())
    sealed = vault.seal("a:b:c", proxy_id=7)
    assert "a:b:c" not in sealed
    assert vault.open(sealed, proxy_id=7) == "a:b:c"
    with pytest.raises(SecretUnreadable):
        vault.open(sealed, proxy_id=8)


def test_an_old_key_still_opens_and_the_token_says_which_key_it_needs() -> None:
    old, new = sealing_key(), sealing_key()
    sealed = Vault(old).seal("secret", proxy_id=1)
    both = Vault(f"{new},{old}")
    assert both.open(sealed, proxy_id=1) == "secret"
    assert both.key_ids == [Vault(new).newest, Vault(old).newest]
    assert sealed.split(":")[1] == Vault(old).newest
    again = both.seal("secret", proxy_id=1)
    assert again.split(":")[1] == both.newest == Vault(new).newest
    assert Vault(new).open(again, proxy_id=1) == "secret"
    with pytest.raises(SecretUnreadable):
        Vault(new).open(sealed, proxy_id=1)


def test_the_same_password_is_never_sealed_the_same_way_twice() -> None:
    vault = Vault(sealing_key())
    assert len({vault.seal("secret", proxy_id=1) for _ in range(100)}) == 100


@pytest.mark.parametrize("place", [0, 5, 20, -1])
def test_a_token_that_was_touched_does_not_open(place: int) -> None:
    vault = Vault(sealing_key())
    sealed = list(vault.seal("a long enough password", proxy_id=1))
    sealed[place] = "A" if sealed[place] != "A" else "B"
    with pytest.raises(SecretUnreadable):
        vault.open("".join(sealed), proxy_id=1)


@pytest.mark.parametrize("keys", ["", ",", "c2hvcnQ=", "not base64!", "A" * 44 + "," + "short"])
def test_what_is_no_key_is_refused_and_not_repeated(keys: str) -> None:
    with pytest.raises(ValueError, match="key") as error:
        Vault(keys)
    assert not keys.strip(",") or keys not in str(error.value)
