"""When a month's money becomes an alert, and when it stops leases."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal

Scope = Literal["domain", "provider"]
State = Literal["open", "warned", "stopped"]


def state_of(*, spent: Decimal, amount: Decimal, alert_share: float) -> State:
    """Stopped at the whole amount, so that 0 allows nothing."""
    if spent >= amount:
        return "stopped"
    # By way of its shortest spelling: 0.8 means eight tenths, not the double next to it.
    return "warned" if spent >= amount * Decimal(str(alert_share)) else "open"


def month_of(moment: datetime) -> date:
    """A budget begins anew with the month of the database's clock."""
    return moment.date().replace(day=1)


def month_after(month: date) -> date:
    return (month + timedelta(days=31)).replace(day=1)
