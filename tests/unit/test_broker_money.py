"""Costs, budgets and sizes are exact."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from limpet.proxy_broker.budget import month_after, month_of, state_of
from limpet.proxy_broker.costs import cost, per_thousand, shown
from limpet.proxy_broker.sizing import Size, advise, size


@pytest.mark.parametrize(
    ("rate", "per_proxy", "needed", "recommended"),
    [
        (100, 20, 5, 6),
        (101, 20, 6, 7),
        (10, 20, 1, 1),
        (1000, 20, 50, 60),
        (20, 1, 20, 24),
        (5, None, 1, 2),
        (0, 20, 0, 0),
        (0, None, 0, 0),
    ],
)
def test_b8_sizing_is_the_rate_by_the_limit_and_a_fifth_more(
    rate: int, per_proxy: int | None, needed: int, recommended: int
) -> None:
    limit = Fraction(per_proxy) if per_proxy is not None else None
    assert size(rate_per_hour=Fraction(rate), per_proxy=limit) == Size(needed=needed, recommended=recommended)


@pytest.mark.parametrize(("have", "advice"), [(4, "short"), (5, "tight"), (6, "enough")])
def test_b8_the_advice_compares_what_there_is(have: int, advice: str) -> None:
    assert advise(Size(needed=5, recommended=6), have=have) == advice


def test_b8_an_hour_costs_its_part_of_a_month_and_a_gigabyte_its_price() -> None:
    month = cost(price_hours=Decimal("7.30") * 730, price_bytes=Decimal(0))
    assert month == Decimal("7.30")
    assert cost(price_hours=Decimal("7.30"), price_bytes=Decimal("2.5") * 10**9) == Decimal("2.51")
    assert per_thousand(Decimal("2.51"), good=500) == Decimal("5.02")
    assert per_thousand(Decimal(1), good=0) is None
    assert str(shown(Decimal("0.0000005"))) == "0.000001"


@pytest.mark.parametrize(
    ("spent", "state"),
    [
        ("0", "open"),
        ("79.99", "open"),
        ("80", "warned"),
        ("99.999999", "warned"),
        ("100", "stopped"),
        ("101", "stopped"),
    ],
)
def test_b8_a_budget_warns_before_it_stops(spent: str, state: str) -> None:
    assert state_of(spent=Decimal(spent), amount=Decimal(100), alert_share=0.8) == state


def test_b8_no_money_allows_nothing_and_a_share_is_meant_as_written() -> None:
    assert state_of(spent=Decimal(0), amount=Decimal(0), alert_share=0.8) == "stopped"
    # The double next to 0.1 is a little more than a tenth.
    assert state_of(spent=Decimal("0.1"), amount=Decimal(1), alert_share=0.1) == "warned"


def test_b8_months_follow_each_other() -> None:
    assert month_of(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == date(2026, 12, 1)
    assert [month_after(date(2026, month, 1)) for month in (1, 2, 12)] == [
        date(2026, 2, 1),
        date(2026, 3, 1),
        date(2027, 1, 1),
    ]
