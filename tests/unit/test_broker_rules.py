"""The broker's pure rules: who gets what, why nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from limpet.proxy_broker.errors import SecretUnreadable
from limpet.proxy_broker.refusal import Patience, Survey, refuse
from limpet.proxy_broker.strategy import Candidate, choose
from limpet.proxy_broker.vault import Vault

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOON = NOW + timedelta(seconds=9)


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
    vault = Vault(Fernet.generate_key().decode())
    sealed = vault.seal("a:b:c", proxy_id=7)
    assert "a:b:c" not in sealed
    assert vault.open(sealed, proxy_id=7) == "a:b:c"
    with pytest.raises(SecretUnreadable):
        vault.open(sealed, proxy_id=8)


def test_an_old_key_still_opens_and_rotation_lets_it_go() -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    sealed = Vault(old).seal("secret", proxy_id=1)
    both = Vault(f"{new},{old}")
    assert both.open(sealed, proxy_id=1) == "secret"
    assert Vault(new).open(both.rotate(sealed), proxy_id=1) == "secret"
    with pytest.raises(SecretUnreadable):
        Vault(new).open(sealed, proxy_id=1)
