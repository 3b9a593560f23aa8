"""The broker's pure rules: who gets what, why nothing."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.refusal import Patience, Survey, Wait, refuse
from limpet.proxy_broker.strategy import Candidate, choose
from limpet.proxy_broker.vault import Vault
from tests.support.sealing import sealing_key

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MONTH = datetime(2026, 2, 1, tzinfo=UTC)
SOON = NOW + timedelta(seconds=9)


def candidate(proxy_id: int, *, group: int = 0, priority: int = 5, room: int = 1) -> Candidate:
    return Candidate(
        group=group,
        proxy_id=proxy_id,
        priority=priority,
        room=room,
        probe="",
        protocol="http",
        host="h",
        port=1,
        username="",
        password_sealed=None,
    )


def ids(groups: list[int], pool: list[Candidate], *, loyal: frozenset[int] = frozenset()) -> list[int | None]:
    chosen = choose(groups, pool, given=Counter(), loyal=loyal)
    return [None if one is None else one.proxy_id for one in chosen]


def test_least_recently_used_comes_first_and_goes_to_the_back() -> None:
    pool = [candidate(n, room=2) for n in (1, 2, 3)]
    assert ids([0] * 7, pool) == [1, 2, 3, 1, 2, 3, None]


def test_a_better_priority_is_used_up_before_a_worse_one() -> None:
    pool = [candidate(1, priority=9), candidate(2, priority=1, room=2), candidate(3, priority=1)]
    assert ids([0] * 5, pool) == [2, 3, 2, 1, None]


def test_two_domains_in_one_call_share_the_room_of_a_proxy() -> None:
    pool = [candidate(proxy_id, group=group) for group in (0, 1) for proxy_id in (1, 2)]
    assert ids([0, 1, 0], pool) == [1, 2, None]


def test_what_a_proxy_gave_in_an_earlier_round_leaves_less_room() -> None:
    chosen = choose([0, 0], [candidate(1, room=2), candidate(2, room=2)], given=Counter({1: 2}))
    assert [one and one.proxy_id for one in chosen] == [2, 2]


def test_a_session_stays_with_its_first_proxy_and_two_sessions_take_two() -> None:
    pool = [candidate(proxy_id, group=group, room=2) for group in (0, 1) for proxy_id in (1, 2)]
    assert ids([0, 0, 1, 0, 1], pool, loyal=frozenset({0, 1})) == [1, 1, 2, None, 2]


STAGES = ("members", "in_country", "matching", "enabled", "funded", "ready")


def survey(passed: str, *, waits_for: Wait | None = None, wait: int = 0) -> Survey:
    """Two proxies come as far as `passed` and no further."""
    counts = {stage: 2 if passed and STAGES.index(stage) <= STAGES.index(passed) else 0 for stage in STAGES}
    ready_at = NOW + timedelta(seconds=wait) if counts["funded"] else None
    return Survey(group=0, now=NOW, next_month=MONTH, ready_at=ready_at, waits_for=waits_for, free=[], **counts)


@pytest.mark.parametrize(
    ("found", "reason", "retry_at"),
    [
        (survey(""), "no_pool", NOW + timedelta(seconds=60)),
        (survey("members"), "no_country", NOW + timedelta(seconds=60)),
        (survey("in_country"), "no_match", NOW + timedelta(seconds=60)),
        (survey("matching"), "disabled", NOW + timedelta(seconds=60)),
        (survey("enabled"), "budget", MONTH),
        (survey("funded", waits_for="limited", wait=9), "limited", SOON),
        (survey("funded", waits_for="cooling", wait=9), "cooling", SOON),
        (survey("funded", waits_for="blocked", wait=9), "blocked", SOON),
        (survey("ready"), "busy", NOW + timedelta(seconds=1)),
    ],
)
def test_a_refusal_says_why_and_when_to_ask_again(found: Survey, reason: str, retry_at: datetime) -> None:
    refusal = refuse(found, Patience())
    assert (refusal.reason, refusal.retry_at) == (reason, retry_at)


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
