"""Lists as PostgreSQL writes arrays. The driver looks at each element of a list; one text of them all costs a tenth."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def numbers(values: Iterable[float | None]) -> str:
    """For `$1::text::bigint[]` and its like."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def texts(values: Collection[str]) -> str:
    """For `$1::text::text[]`; the same few words often."""
    quoted = {value: _quote(value) for value in set(values)}
    return "{" + ",".join([quoted[value] for value in values]) + "}"


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
