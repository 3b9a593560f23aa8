"""The Grafana dashboards, written as code: `make docs` makes the JSON that the chart packs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "deploy" / "helm" / "limpet" / "files" / "dashboards"
WIDTH, HEIGHT = 8, 7


@dataclass(frozen=True)
class Panel:
    title: str
    unit: str
    # Query to legend.
    queries: dict[str, str]
    kind: str = "timeseries"
    words: str = ""


@dataclass(frozen=True)
class Dashboard:
    name: str
    title: str
    panels: tuple[Panel, ...] = field(default_factory=tuple)


def rate(metric: str, by: str = "", window: str = "5m") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate({metric}[{window}]))"


def quantile(metric: str, q: float = 0.95, by: str = "") -> str:
    return f"histogram_quantile({q}, sum by (le{f', {by}' if by else ''}) (rate({metric}_bucket[5m])))"


def stat(title: str, unit: str, query: str) -> Panel:
    return Panel(title, unit, {query: ""}, kind="stat")


ORDERS, BUS = "limpet_fetcher_orders_total", "limpet_bus_messages_total"
DASHBOARDS = (
    Dashboard(
        "overview",
        "Limpet: overview",
        (
            stat("Pages a second", "ops", rate(ORDERS + '{outcome="fetched"}')),
            stat("Items a second", "ops", rate("limpet_parser_items_total")),
            stat("Dead letters", "short", "max(limpet_scheduler_dead_letters)"),
            Panel("Tasks by status", "short", {"max by (state) (limpet_scheduler_tasks)": "{{state}}"}),
            Panel("Requests by outcome", "ops", {rate(ORDERS, "outcome"): "{{outcome}}"}),
            Panel(
                "Share of requests without a page",
                "percentunit",
                {"limpet:order_errors:ratio_rate5m": "5 minutes", "limpet:order_errors:ratio_rate1h": "1 hour"},
            ),
            Panel("Messages that wait", "short", {"max by (consumer) (limpet_health_queue_waiting)": "{{consumer}}"}),
            Panel("Verdict", "short", {"max by (status) (limpet_health_fleet_status)": "{{status}}"}),
            Panel("Workers", "short", {"max by (service) (limpet_health_workers)": "{{service}}"}),
            Panel("New tasks", "ops", {rate("limpet_scheduler_tasks_added_total", "source"): "{{source}}"}),
            Panel("Pages parsed", "ops", {rate("limpet_parser_pages_total", "outcome"): "{{outcome}}"}),
            Panel("Servers that answer", "short", {"min by (dependency) (limpet_dependency_up)": "{{dependency}}"}),
        ),
    ),
    Dashboard(
        "domains",
        "Limpet: domains and pace",
        (
            stat("Active domains", "short", 'max(limpet_scheduler_domains{state="active"})'),
            stat("Open breakers", "short", 'max(limpet_scheduler_domains{state="open"})'),
            stat("Open for half an hour", "short", 'max(limpet_scheduler_domains{state="open_long"})'),
            Panel("Orders sent", "ops", {rate("limpet_scheduler_orders_sent_total"): "orders"}),
            Panel(
                "Time of a round of permits",
                "s",
                {
                    quantile("limpet_scheduler_dispatch_seconds"): "95 %",
                    quantile("limpet_scheduler_dispatch_seconds", 0.5): "median",
                },
            ),
            Panel(
                "Time since the last round",
                "s",
                {"time() - max(limpet_scheduler_last_round_timestamp_seconds)": "seconds"},
            ),
            Panel(
                "Answers of sites",
                "s",
                {
                    quantile("limpet_fetcher_response_seconds"): "95 %",
                    quantile("limpet_fetcher_response_seconds", 0.5): "median",
                },
            ),
            Panel("Breakers opened", "ops", {rate("limpet_scheduler_breakers_opened_total"): "opened"}),
            Panel("Permits that expired", "ops", {rate("limpet_scheduler_permits_expired_total"): "expired"}),
            Panel("Tasks whose wait was over", "ops", {rate("limpet_scheduler_tasks_ripened_total"): "tasks"}),
            Panel("Error of the fetchers' clocks", "s", {"max(limpet_fetcher_clock_error_seconds)": "largest"}),
        ),
    ),
    Dashboard(
        "proxies",
        "Limpet: proxies and cost",
        (
            stat("Active proxies", "short", 'max(limpet_proxy_broker_proxies{state="active"})'),
            stat("Budgets spent", "short", 'max(limpet_proxy_broker_alerts{reason="budget_stopped"})'),
            stat("Domains short of proxies", "short", 'max(limpet_proxy_broker_alerts{reason="few_proxies"})'),
            Panel("Proxies by state", "short", {"max by (state) (limpet_proxy_broker_proxies)": "{{state}}"}),
            Panel("Leases given", "ops", {rate("limpet_proxy_broker_leases_given_total"): "given"}),
            Panel(
                "Leases refused, by reason",
                "ops",
                {f"{rate('limpet_proxy_broker_leases_refused_total', 'reason')} or vector(0)": "{{reason}}"},
            ),
            Panel(
                "Leases closed, by outcome",
                "ops",
                {f"{rate('limpet_proxy_broker_leases_closed_total', 'outcome')} or vector(0)": "{{outcome}}"},
            ),
            Panel("Time of a lease", "s", {quantile("limpet_proxy_broker_lease_seconds"): "95 %"}),
            Panel("Time of a report", "s", {quantile("limpet_proxy_broker_report_seconds"): "95 %"}),
            Panel(
                "Set aside", "ops", {f"{rate('limpet_proxy_broker_cooled_total', 'scope')} or vector(0)": "{{scope}}"}
            ),
            Panel(
                "Money: conditions that hold",
                "short",
                {'max by (reason) (limpet_proxy_broker_alerts{reason=~"budget.*"})': "{{reason}}"},
            ),
            Panel("Retries through another proxy", "ops", {rate("limpet_fetcher_retries_total"): "retries"}),
        ),
    ),
    Dashboard(
        "services",
        "Limpet: services",
        (
            Panel("CPU", "short", {"sum by (job) (rate(process_cpu_seconds_total[5m]))": "{{job}}"}),
            Panel("Memory", "bytes", {"max by (job) (process_resident_memory_bytes)": "{{job}}"}),
            Panel("Versions", "short", {"count by (version) (limpet_build_info)": "{{version}}"}),
            Panel("Messages handled", "ops", {rate(BUS, "consumer"): "{{consumer}}"}),
            Panel(
                "Messages not handled at once",
                "ops",
                {
                    f"{rate(BUS + '{outcome!=' + chr(34) + 'ok' + chr(34) + '}', 'consumer, outcome')} or vector(0)": "{{consumer}} {{outcome}}"
                },
            ),
            Panel("Time of a message", "s", {quantile("limpet_bus_handle_seconds", 0.95, "consumer"): "{{consumer}}"}),
            Panel("Messages in hand", "short", {"max by (consumer) (limpet_health_queue_in_hand)": "{{consumer}}"}),
            Panel(
                "Requests at the front door",
                "ops",
                {rate("limpet_health_forwarded_total", "upstream, status_class"): "{{upstream}} {{status_class}}"},
            ),
            Panel(
                "Time until an answer begins",
                "s",
                {quantile("limpet_health_forward_seconds", 0.95, "upstream"): "{{upstream}}"},
            ),
            Panel("Orders in hand", "short", {"sum(limpet_fetcher_in_hand)": "orders"}),
            Panel("Time to settle a batch of facts", "s", {quantile("limpet_scheduler_settle_seconds"): "95 %"}),
            Panel("Stalls found", "ops", {rate("limpet_selfcheck_stalls_total"): "stalls"}),
        ),
    ),
)


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    targets = [
        {"datasource": source, "expr": query, "legendFormat": legend, "refId": chr(ord("A") + place)}
        for place, (query, legend) in enumerate(panel.queries.items())
    ]
    place = {"x": number % 3 * WIDTH, "y": number // 3 * HEIGHT, "w": WIDTH, "h": HEIGHT}
    return {
        "id": number + 1,
        "title": panel.title,
        "type": panel.kind,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def rendered(dashboard: Dashboard) -> str:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    whole = {
        "uid": f"limpet-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["limpet"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source]},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }
    return json.dumps(whole, indent=1) + "\n"


def pages() -> dict[str, str]:
    folder = FOLDER.relative_to(FOLDER.parents[4])
    return {f"{folder}/{dashboard.name}.json": rendered(dashboard) for dashboard in DASHBOARDS}
