"""Scope, traps and archives are pure rules: the same link in, the same answer out, whatever it holds."""

from __future__ import annotations

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.scheduler.archives import Said, archive_candidates, is_soft_404
from limpet.scheduler.path_pattern import path_pattern
from limpet.scheduler.scope import REASONS, BadPattern, compiled, is_duplicate, is_related, judge, read_scope
from limpet.scheduler.seen import Seen
from limpet.scheduler.traps import trap_in, without_session

TODAY = date(2026, 11, 18)
SHOP = "http://shop.test"


@given(
    text=st.text(max_size=60) | st.from_regex(r"https?://[a-z.]{1,12}(/[a-z0-9=?&;%.]{0,40})?", fullmatch=True),
    nofollow=st.booleans(),
    depth=st.integers(0, 9),
)
def test_s22_every_link_is_taken_or_left_out_for_a_reason_that_is_known(text: str, nofollow: bool, depth: int) -> None:
    scope = read_scope('{"max_depth": 5, "exclude": ["x"], "drop_params": ["a*"], "hosts": "same_domain"}')
    judged = judge(scope, text, host="shop.test", depth=depth, nofollow=nofollow, today=TODAY)
    assert judged.reason is None or judged.reason in REASONS
    assert judged.reason is not None or judged.target is not None
    if judged.reason is None and judged.target is not None:
        again = judge(scope, judged.target.url, host="shop.test", depth=depth, nofollow=nofollow, today=TODAY)
        assert again.target == judged.target, "the address is known by itself"


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/a?PHPSESSID=1", "/a"),
        ("/a;jsessionid=8F?b=1", "/a?b=1"),
        ("/(S(abcdefghij123456))/a", "/a"),
        ("/a?sid=0123456789abcdef", "/a"),
        ("/a?sid=42", "/a?sid=42"),
        ("/a?s=boots", "/a?s=boots"),
        ("/a?utm_source=x&id=1&gclid=z", "/a?id=1"),
    ],
)
def test_s22_sessions_and_campaigns_are_taken_out_and_nothing_else(path: str, kept: str) -> None:
    assert without_session(SHOP + path, tracking=True) == SHOP + kept


@pytest.mark.parametrize(
    ("path", "reason", "shape"),
    [
        ("/calendar/2026/12", "calendar", True),
        ("/events?date=2026-12-01", "calendar", True),
        ("/x?month=3&year=2026", "calendar", True),
        ("/x?month=3&year=2031", "calendar", False),
        ("/x?date=1920-01-01", "calendar", False),
        ("/news/2024/05/story", None, False),
        ("/products/2031", None, False),
        ("/list?color=red&size=s", "facets", True),
        ("/list?color=red&page=2", None, False),
        ("/a/b/a/b/a/b", "repeated_segments", False),
        ("/a/b/a/b", None, False),
        ("/1/2/3/4/5/6/7/8/9", "deep", True),
        ("/" + "/".join(map(str, range(30))), "too_long", False),
        ("/" + "a" * 1600, "too_long", False),
    ],
)
def test_s22_traps_are_known_by_their_addresses(path: str, reason: str | None, shape: bool) -> None:
    trap = trap_in(SHOP + path, today=TODAY)
    assert (trap.reason if trap else None, bool(trap and trap.shape)) == (reason, shape)


def test_s22_hosts_below_a_name_are_related_and_those_beside_it_are_not() -> None:
    assert is_related("blog.shop.test", "www.shop.test")
    assert is_related("shop.test", "blog.shop.test")
    assert not is_related("otherhop.test", "hop.test")
    assert not is_related("a.test", "b.test")
    assert not is_related("test", "shop.test")


def test_s22_a_duplicate_is_the_same_path_under_other_parameters() -> None:
    assert is_duplicate(f"{SHOP}/a?view=grid", f"{SHOP}/a")
    assert not is_duplicate(f"{SHOP}/a", f"{SHOP}/a")
    assert not is_duplicate(f"{SHOP}/a", f"{SHOP}/")


def test_s22_a_pattern_that_is_none_says_why() -> None:
    with pytest.raises(BadPattern, match="missing"):
        compiled(["(a"])
    assert read_scope(json.dumps({"include": ["a"]})).include[0].search("cab")


def test_s23_lists_of_a_kind_have_one_pattern() -> None:
    assert path_pattern(f"{SHOP}/news/2024/some-long-story/") == "/news/*/*"
    assert path_pattern(f"{SHOP}/c/12") == path_pattern(f"{SHOP}/c/13") != path_pattern(f"{SHOP}/lamps")


def test_s22_dates_are_the_sites_own_from_its_first_year_to_this_month() -> None:
    paths = archive_candidates([f"{SHOP}/news/2025/03/x", f"{SHOP}/blog/archives/old", f"{SHOP}/p/1"], today=TODAY)
    assert paths[:3] == ["/archive", "/sitemap", "/blog/archives"]
    assert {"/news/2026/", "/news/2026/11/", "/news/2025/03/", "/news/2024/"} <= set(paths)
    assert "/news/2026/12/" not in paths
    assert archive_candidates([f"{SHOP}/p/1999"], today=TODAY)[:2] == ["/archive", "/sitemap"]


@given(st.lists(st.from_regex(r"http://s/[a-z/]{0,9}(19|20)\d\d[/-]?(\d\d)?/?[a-z]{0,5}", fullmatch=True), max_size=40))
def test_s22_no_site_has_more_candidates_than_a_bound(urls: list[str]) -> None:
    paths = archive_candidates(urls, today=TODAY)
    assert len(paths) <= 72 + 2 + len(urls)
    assert all(path.startswith("/") for path in paths)


@given(st.integers(1, (1 << 64) - 1), st.integers(0, 63))
def test_s22_what_says_nearly_the_same_as_a_missing_page_is_missing(said: int, bit: int) -> None:
    missing = Said(b"m", said)
    assert is_soft_404(Said(b"x", said ^ (1 << bit) or 1), missing) or said ^ (1 << bit) == 0
    assert not is_soft_404(Said(b"x", said ^ (1 << 64) - 1), missing)
    assert not is_soft_404(Said(b"x", said), None)
    assert is_soft_404(Said(b"x", said, says_empty=True), None)


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=3)), max_size=200))
def test_s22_what_was_seen_is_bounded(links: list[tuple[int, str]]) -> None:
    seen = Seen(most=20)
    for batch, url in links:
        seen.add((batch, 1), [url])
        assert sum(len(seen.of((one, 1))) for one in range(4)) <= 20
    assert not links or links[-1][1] in seen.of((links[-1][0], 1))
