"""Columns of rows that go to the database together."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def sparse(values: list[T | None]) -> list[T | None]:
    """`unnest` fills a shorter column up with NULL: one without any value need not be sent."""
    return values if values.count(None) < len(values) else []
