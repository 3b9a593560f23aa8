"""Lists of proxies as providers hand them out: a line of text, or a row under a header, becomes named fields."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Final
from urllib.parse import unquote

FIELDS: Final = (
    "protocol", "host", "port", "username", "password", "kind", "country_code", "city", "provider", "monthly_cost",
    "cost_per_gb", "max_requests_per_hour", "max_concurrent_leases",
)  # fmt: skip
NUMBERS: Final = ("port", "max_requests_per_hour", "max_concurrent_leases")
FORMS: Final = "is not host:port, host:port:user:password or scheme://user:password@host:port"


@dataclass(frozen=True)
class Entry:
    """What one line says, not yet checked. Its text is not kept: it may hold a password."""

    line: int
    values: dict[str, object]


@dataclass(frozen=True)
class Refusal:
    """Why a line cannot be taken, without a word of what it holds."""

    line: int
    field: str
    message: str


class BadHeader(ValueError):
    """The first row does not name the columns."""


def read_plain(text: str) -> Iterator[Entry | Refusal]:
    """One proxy per line; empty lines and those after a `#` are none."""
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            values = parse_line(stripped)
            yield Refusal(number, "line", FORMS) if values is None else Entry(number, values)


def parse_line(line: str) -> dict[str, object] | None:
    """None: it has none of the forms."""
    scheme, separator, rest = line.partition("://")
    if separator:
        values = _with_userinfo(rest.rstrip("/"), quoted=True)
        return None if values is None else {"protocol": scheme.lower(), **values}
    # A password may hold an @: the form with the port second goes first.
    return _with_port_second(line) or _with_userinfo(line, quoted=False)


def _with_port_second(line: str) -> dict[str, object] | None:
    host, rest = _split_host(line)
    port, _, credentials = rest.partition(":")
    if not host or not _is_number(port):
        return None
    username, separator, password = credentials.partition(":")
    if not credentials:
        return {"host": host, "port": int(port)}
    return {"host": host, "port": int(port), "username": username, "password": password} if separator else None


def _with_userinfo(line: str, *, quoted: bool) -> dict[str, object] | None:
    userinfo, at, place = line.rpartition("@")
    host, port = _split_host(place)
    if not host or not _is_number(port):
        return None
    values: dict[str, object] = {"host": host, "port": int(port)}
    if at:
        username, separator, password = userinfo.partition(":")
        values["username"] = unquote(username) if quoted else username
        if separator:
            values["password"] = unquote(password) if quoted else password
    return values


def _split_host(text: str) -> tuple[str, str]:
    """Host and what follows its colon. An IPv6 address stands in brackets."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return (host, rest[1:]) if rest.startswith(":") else ("", "")
    host, _, rest = text.partition(":")
    return host, rest


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def read_csv(text: str) -> Iterator[Entry | Refusal]:
    """Rows under a header of our field names; an empty cell says nothing."""
    rows = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(rows, [])]
    except csv.Error:
        raise BadHeader("is not CSV") from None
    # A file without a header may begin with a password: columns are named by their number.
    for column, name in enumerate(header, start=1):
        if name not in FIELDS:
            raise BadHeader(f"column {column} is none of {', '.join(FIELDS)}")
    if len(set(header)) < len(header) or not {"host", "port"} <= set(header):
        raise BadHeader("needs host and port, and each column once")
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            yield Refusal(rows.line_num, "line", "is not CSV")
            continue
        if row:
            yield _row(rows.line_num, header, row)


def _row(number: int, header: list[str], row: list[str]) -> Entry | Refusal:
    if len(row) != len(header):
        return Refusal(number, "line", f"has {len(row)} cells where the header has {len(header)}")
    values: dict[str, object] = {}
    for name, cell in zip(header, row, strict=True):
        text = cell if name == "password" else cell.strip()
        if text and name in NUMBERS:
            if not _is_number(text):
                return Refusal(number, name, "must be a number")
            values[name] = int(text)
        elif text:
            values[name] = text.lower() if name in ("protocol", "kind") else text
    return Entry(number, values)
