"""API keys: parsed strictly, compared by hash, ordered by role."""

from __future__ import annotations

import hashlib

import pytest

from limpet.kit.keys import ROLES, BadKeys, Keys, allows


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "admin",
        "admin:",
        "root:" + digest("k"),
        "admin:" + digest("k")[:-1],
        "admin:" + digest("k").upper(),
        "admin:secret",
        f"read:{digest('k')},oops",
    ],
)
def test_anything_but_a_list_of_roles_and_hashes_is_refused(text: str) -> None:
    with pytest.raises(BadKeys, match=r"role:sha256hex|holds no key"):
        Keys.parse(text)


def test_a_refused_list_is_not_repeated_in_the_error() -> None:
    with pytest.raises(BadKeys) as caught:
        Keys.parse("admin:my-plain-key")
    assert "my-plain-key" not in str(caught.value)


def test_a_key_has_the_role_it_was_issued_with() -> None:
    keys = Keys.parse(f"read:{digest('r')}, operate:{digest('o')} ,admin:{digest('a')},")
    assert [keys.role_of(key) for key in ("r", "o", "a", "x", "", digest("a"))] == [
        "read",
        "operate",
        "admin",
        None,
        None,
        None,
    ]


def test_a_key_issued_twice_has_the_stronger_role_whatever_the_order() -> None:
    both = [f"admin:{digest('k')}", f"read:{digest('k')}"]
    assert {Keys.parse(",".join(order)).role_of("k") for order in (both, both[::-1])} == {"admin"}


def test_a_role_includes_the_weaker_ones_only() -> None:
    allowed = {(held, needed) for held in ROLES for needed in ROLES if allows(held, needed)}
    assert allowed == {
        ("read", "read"),
        ("operate", "read"),
        ("operate", "operate"),
        ("admin", "read"),
        ("admin", "operate"),
        ("admin", "admin"),
    }
