"""Lists of proxies: every form that providers use, and no word of a refused line."""

from __future__ import annotations

import pytest

from limpet.proxy_broker.proxy_lines import BadHeader, Entry, Refusal, parse_line, read_csv, read_plain


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("10.0.0.1:8080", {"host": "10.0.0.1", "port": 8080}),
        ("p.test:80:me:secret", {"host": "p.test", "port": 80, "username": "me", "password": "secret"}),
        ("p.test:80:me:a:b@c", {"host": "p.test", "port": 80, "username": "me", "password": "a:b@c"}),
        ("[2001:db8::1]:80", {"host": "2001:db8::1", "port": 80}),
        ("[::1]:80:me:x", {"host": "::1", "port": 80, "username": "me", "password": "x"}),
        ("me:secret@p.test:80", {"host": "p.test", "port": 80, "username": "me", "password": "secret"}),
        ("http://p.test:80", {"protocol": "http", "host": "p.test", "port": 80}),
        ("HTTPS://p.test:80/", {"protocol": "https", "host": "p.test", "port": 80}),
        (
            "socks5://me:p%40ss%3A@[::1]:1080",
            {"protocol": "socks5", "host": "::1", "port": 1080, "username": "me", "password": "p@ss:"},
        ),
        ("http://me@p.test:80", {"protocol": "http", "host": "p.test", "port": 80, "username": "me"}),
    ],
)
def test_b7_each_form_of_a_line_is_understood(line: str, values: dict[str, object]) -> None:
    assert parse_line(line) == values


@pytest.mark.parametrize(
    "line",
    [
        "p.test",
        "p.test:",
        ":80",
        "p.test:many",
        "p.test:80:me",
        "[::1:80",
        "http://p.test",
        "http://:80",
        "@:",
        "::1:80",
    ],
)
def test_b7_what_has_no_form_is_refused(line: str) -> None:
    assert parse_line(line) is None


def test_b7_a_plain_list_counts_its_lines_and_skips_what_is_empty() -> None:
    found = list(read_plain("# mine\r\n\r\np.test:1\r\nhunter2\r\n p.test:2 "))
    assert found[0] == Entry(3, {"host": "p.test", "port": 1})
    assert isinstance(found[1], Refusal)
    assert (found[1].line, found[1].field, "hunter2" in found[1].message) == (4, "line", False)
    assert found[2] == Entry(5, {"host": "p.test", "port": 2})


def test_b7_csv_rows_stand_under_a_header_and_empty_cells_say_nothing() -> None:
    text = 'Host,port,password,kind,city\np.test,80," pa,""ss",Mobile,\n\np.test,many,x,,\np.test,81,x\n'
    found = list(read_csv(text))
    assert found[0] == Entry(2, {"host": "p.test", "port": 80, "password": ' pa,"ss', "kind": "mobile"})
    assert found[1] == Refusal(4, "port", "must be a number")
    assert found[2] == Refusal(5, "line", "has 3 cells where the header has 5")


@pytest.mark.parametrize("header", ["10.0.0.1,80,me,hunter2", "host", "host,port,port", "", "host,port,hunter2"])
def test_b7_a_list_without_a_header_is_refused_and_not_repeated(header: str) -> None:
    with pytest.raises(BadHeader) as error:
        list(read_csv(header + "\nx,1\n"))
    assert "hunter2" not in str(error.value)
