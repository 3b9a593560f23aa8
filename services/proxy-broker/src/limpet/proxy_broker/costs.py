"""What uses cost: money is decimal, and rounded only where it is shown."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Final

# A mean month: 365 days of 24 hours by 12.
HOURS_PER_MONTH: Final = 730
# As providers count.
BYTES_PER_GB: Final = 10**9
SHOWN: Final = Decimal("0.000001")


def cost(*, price_hours: Decimal, price_bytes: Decimal) -> Decimal:
    """From monthly prices times hours, and prices per gigabyte times bytes."""
    return price_hours / HOURS_PER_MONTH + price_bytes / BYTES_PER_GB


def per_thousand(amount: Decimal, *, good: int) -> Decimal | None:
    """Of a thousand good pages; None where there was no good page to pay for."""
    return amount * 1000 / good if good else None


def shown(amount: Decimal) -> Decimal:
    """To a millionth, halves up, as people round."""
    return amount.quantize(SHOWN, rounding=ROUND_HALF_UP)
