"""Proxies, costs and policies as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Column, Table

Answer = Mapping[str, Any]


def proxy_table(proxies: Iterable[Answer]) -> Table:
    # The address is what people look for: the others give way on a narrow terminal.
    proxy_column = Column("proxy", no_wrap=True)
    table = Table("id", proxy_column, "kind", "country", "provider", "state", "success", "ms", "per hour", box=SIMPLE)
    for proxy in proxies:
        table.add_row(
            str(proxy["proxy_id"]),
            escape(address(proxy)),
            proxy["kind"],
            proxy["country_code"] or "-",
            escape(proxy["provider"]) or "-",
            state(proxy),
            share(proxy["success_rate"]),
            "-" if proxy["avg_response_ms"] is None else f"{proxy['avg_response_ms']:.0f}",
            "no limit" if proxy["max_requests_per_hour"] is None else str(proxy["max_requests_per_hour"]),
        )
    return table


def facts_table(facts: Answer) -> Table:
    """One thing with all that is known of it."""
    table = Table("field", "value", show_header=False)
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        table.add_row(name, "-" if shown in (None, "") else escape(str(shown)))
    return table


def cost_table(by: str, costs: Iterable[Answer]) -> Table:
    table = Table(
        by, "good pages", "failures", "GB", "cost", "idle", "per 1,000 good", "with idle", title_justify="left"
    )
    for cost in costs:
        table.add_row(
            escape(cost["name"]) or "-",
            f"{cost['good_pages']:,}",
            f"{cost['failures']:,}",
            f"{cost['bytes'] / 1e9:.2f}",
            cost["cost"],
            cost["idle_cost"],
            cost["cost_per_thousand"] or "-",
            cost["cost_per_thousand_with_idle"] or "-",
        )
    return table


def address(proxy: Answer) -> str:
    """Where it is and as whom; whether there is a password, never which."""
    host = f"[{proxy['host']}]" if ":" in proxy["host"] else proxy["host"]
    user = proxy["username"] + (":***" if proxy["has_password"] else "")
    return f"{proxy['protocol']}://{user + '@' if user else ''}{host}:{proxy['port']}"


def state(proxy: Answer) -> str:
    if proxy["operator_disabled"]:
        return "disabled"
    return "active" if proxy["active"] else "cooling"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
