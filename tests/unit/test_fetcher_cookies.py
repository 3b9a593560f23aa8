"""Cookies: kept for the pair of domain and proxy that they came to, sent where they belong, bounded."""

from __future__ import annotations

import pytest

from limpet.fetcher.cookies import MOST_BYTES, MOST_COOKIES, Cookies, parsed

PAIR = ("shop.test", 0)
URL = "http://shop.test/list/page"


def sent(*lines: str, url: str = URL, now: float = 0.0, pair: tuple[str, int] = PAIR) -> str:
    cookies = Cookies()
    cookies.learn(PAIR, URL, lines, now=0.0)
    return cookies.header(pair, url, now=now)


def test_f3_a_cookie_goes_back_to_its_own_pair_only() -> None:
    assert sent("a=1; Path=/", "b=2") == "b=2; a=1"
    assert sent("a=1", pair=("shop.test", 7)) == ""
    assert sent("a=1", pair=("other.test", 0)) == ""


@pytest.mark.parametrize(
    ("line", "url", "goes"),
    [
        ("a=1", "http://shop.test/list/other", True),
        ("a=1", "http://shop.test/", False),
        ("a=1; path=/", "http://shop.test", True),
        ("a=1; path=/li", "http://shop.test/list", False),
        ("a=1; path=/list", "http://shop.test/list", True),
        ("a=1; path=nonsense", "http://shop.test/list/x", True),
        ("a=1; Secure", "http://shop.test/list/x", False),
        ("a=1; Secure", "https://shop.test/list/x", True),
        ("a=1; Domain=.shop.test", "http://shop.test/list/x", True),
        ("a=1; Domain=test", "http://shop.test/list/x", True),
        ("a=1; Domain=bank.test", "http://shop.test/list/x", False),
        ("a=1; Domain=hop.test", "http://shop.test/list/x", False),
    ],
)
def test_f3_a_cookie_goes_where_its_attributes_say(line: str, url: str, goes: bool) -> None:
    assert sent(line, url=url) == ("a=1" if goes else "")


def test_f3_a_cookie_ends_when_it_says_so() -> None:
    assert sent("a=1; Max-Age=10", now=9.0) == "a=1"
    assert sent("a=1; Max-Age=10", now=11.0) == ""
    assert sent("a=1; Expires=Thu, 01 Jan 1970 00:01:00 GMT", now=61.0) == ""
    assert sent("a=1; Expires=Thu, 01 Jan 1970 00:01:00 GMT; Max-Age=100", now=61.0) == "a=1"
    assert sent("a=1; Expires=whenever", now=1e12) == "a=1"
    assert sent("a=1", "a=; Max-Age=0") == sent("a=1", "a=; Max-Age=-1") == ""


@pytest.mark.parametrize("line", ["", "=1", "noequals", "a=\r\nX: y", "a=\x00", "a=\xff", "a=" + "x" * MOST_BYTES])
def test_f3_what_is_no_cookie_is_not_kept(line: str) -> None:
    assert parsed(line, URL, now=0.0) is None


def test_f3_number_and_size_are_bounded_and_the_newest_stay() -> None:
    many = sent(*(f"c{number}=1" for number in range(500))).split("; ")
    assert len(many) == MOST_COOKIES
    assert "c499=1" in many
    large = sent(*(f"c{number}=" + "x" * 1000 for number in range(50)))
    assert len(large) <= MOST_BYTES
    assert "c49=" in large
    cookies = Cookies(most=10)
    for number in range(100):
        cookies.learn((f"{number}.test", 0), URL, ["a=1"], now=0.0)
    assert len(cookies) == 10
    assert cookies.header(("99.test", 0), URL, now=0.0) == "a=1"


def test_f3_a_refused_session_is_forgotten() -> None:
    cookies = Cookies()
    cookies.learn(PAIR, URL, ["a=1"], now=0.0)
    cookies.forget(PAIR)
    assert (cookies.header(PAIR, URL, now=0.0), len(cookies)) == ("", 0)
