"""Columns of rows that go to the database together."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")
N = TypeVar("N", int, float)


def sparse(values: list[T | None]) -> list[T | None]:
    """`unnest` fills a shorter column up with NULL: one without any value need not be sent."""
    return values if values.count(None) < len(values) else []


def sparse_counts(values: list[N]) -> list[N]:
    """The same for numbers that are mostly 0, where the statement takes NULL for 0."""
    return values if any(values) else []
