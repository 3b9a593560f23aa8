"""X3: every alert fires when its condition is true, stays quiet when it is not, and says what it says of missing series."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.helm import CHART
from tests.support.members import ROOT

PROMTOOL = ROOT / ".venv" / "prometheus" / "promtool"
RULES = sorted((CHART / "files" / "alerts").glob("*.yaml"))
MINUTES = 2000


@dataclass(frozen=True)
class Case:
    """Series, one value a minute in promtool's notation, with which the alert fires after so many minutes, or does not."""

    fires: dict[str, str]
    quiet: dict[str, str]
    after: int = 60
    # What it does when none of its series is there.
    missing: bool = False


def steady(value: float) -> str:
    return f"{value}x{MINUTES}"


def growing(a_minute: float) -> str:
    return f"0+{a_minute}x{MINUTES}"


def gauge(name: str, fires: float, quiet: float, **options: Any) -> Case:
    return Case({name: steady(fires)}, {name: steady(quiet)}, **options)


def alerts_of(reason: str, **options: Any) -> Case:
    return gauge(f'limpet_proxy_broker_alerts{{reason="{reason}"}}', 2, 0, **options)


WAITING = 'limpet_health_queue_waiting{consumer="parser"}'
HANDLED = 'limpet_bus_messages_total{consumer="parser",outcome="%s"}'
ORDERS = 'limpet_fetcher_orders_total{outcome="%s"}'
ROUND = "limpet_scheduler_last_round_timestamp_seconds"
DOMAINS = 'limpet_scheduler_domains{state="%s"}'
FORWARDED = 'limpet_health_forwarded_total{upstream="parser",status_class="%s"}'
ACTIVE = 'limpet_proxy_broker_proxies{state="active"}'
COOLING = 'limpet_proxy_broker_proxies{state="cooling"}'
PAUSED = 'limpet_fetcher_paused{reason="memory",pod="%s"}'
FETCHERS = 'limpet_health_workers{service="fetcher"}'

CASES = {
    "LimpetHealthAbsent": Case({"up": steady(0)}, {FETCHERS: steady(1)}, missing=True),
    "LimpetServiceGone": gauge('limpet_health_workers{service="parser"}', 0, 1),
    "LimpetFleetDown": gauge('limpet_health_fleet_status{status="down"}', 1, 0),
    "LimpetSchedulerStalled": Case({ROUND: steady(5)}, {ROUND: f"0+60x{MINUTES}"}, missing=True),
    "LimpetWorkersStalled": gauge('limpet_health_workers_stalled{service="parser"}', 1, 0),
    "LimpetQueueStuck": Case(
        {WAITING: steady(3), HANDLED % "ok": steady(7)}, {WAITING: steady(3), HANDLED % "ok": growing(1)}
    ),
    "LimpetQueueDrainsTooSlowly": Case(
        {WAITING: steady(50_000), HANDLED % "ok": growing(60)}, {WAITING: steady(1000), HANDLED % "ok": growing(60)}
    ),
    "LimpetRetriesHigh": Case(
        {HANDLED % "ok": growing(80), HANDLED % "retry": growing(20)},
        {HANDLED % "ok": growing(99), HANDLED % "retry": growing(1)},
    ),
    "LimpetDeadLetters": gauge("limpet_scheduler_dead_letters", 1, 0),
    "LimpetBreakerOpenLong": gauge(DOMAINS % "open_long", 1, 0),
    "LimpetManyBreakersOpen": Case(
        {DOMAINS % "open": steady(3), DOMAINS % "active": steady(10)},
        # Three of four is much, and a platform of four domains is small.
        {DOMAINS % "open": steady(3), DOMAINS % "active": steady(4)},
    ),
    "LimpetParserErrorsHigh": Case(
        {
            'limpet_parser_pages_total{outcome="failed"}': growing(10),
            'limpet_parser_pages_total{outcome="parsed"}': growing(90),
        },
        {
            'limpet_parser_pages_total{outcome="failed"}': growing(1),
            'limpet_parser_pages_total{outcome="parsed"}': growing(99),
        },
    ),
    "LimpetDependencyDown": Case(
        {f'limpet_dependency_up{{dependency="nats",pod="{pod}"}}': steady(0) for pod in "ab"},
        # One process alone has lost it: its own readiness says so.
        {f'limpet_dependency_up{{dependency="nats",pod="{pod}"}}': steady(int(pod == "a")) for pod in "ab"},
    ),
    "LimpetFetchersPaused": Case(
        {PAUSED % "a": steady(1), PAUSED % "b": steady(1), FETCHERS: steady(2)},
        {PAUSED % "a": steady(1), FETCHERS: steady(2)},
    ),
    "LimpetPermitsExpire": Case(
        {"limpet_scheduler_permits_expired_total": growing(5), "limpet_scheduler_orders_sent_total": growing(100)},
        {"limpet_scheduler_permits_expired_total": growing(0.5), "limpet_scheduler_orders_sent_total": growing(100)},
    ),
    "LimpetOrderErrorBudgetBurnsFast": Case(
        {ORDERS % "fetched": growing(10), ORDERS % "blocked": growing(90)},
        {ORDERS % "fetched": growing(90), ORDERS % "blocked": growing(10)},
        after=120,
    ),
    "LimpetOrderErrorBudgetBurnsSlowly": Case(
        {ORDERS % "fetched": growing(80), ORDERS % "failed": growing(20)},
        {ORDERS % "fetched": growing(90), ORDERS % "failed": growing(10)},
        after=180,
    ),
    "LimpetFrontDoorErrors": Case(
        {FORWARDED % "5xx": growing(20), FORWARDED % "2xx": growing(80)},
        {FORWARDED % "5xx": growing(1), FORWARDED % "2xx": growing(99)},
    ),
    "LimpetLeasesRefused": Case(
        {
            'limpet_proxy_broker_leases_refused_total{reason="busy"}': growing(9),
            "limpet_proxy_broker_leases_given_total": growing(1),
        },
        {
            'limpet_proxy_broker_leases_refused_total{reason="busy"}': growing(1),
            "limpet_proxy_broker_leases_given_total": growing(9),
        },
    ),
    "LimpetExtractionDropped": gauge("limpet_parser_fields_dropped", 2, 0),
    "LimpetDomainsShortOfProxies": alerts_of("few_proxies"),
    "LimpetProxiesFailing": alerts_of("failures"),
    "LimpetProxyBudgetNearlySpent": alerts_of("budget_warned"),
    "LimpetProxyBudgetSpent": alerts_of("budget_stopped"),
    "LimpetNoActiveProxy": Case(
        {ACTIVE: steady(0), COOLING: steady(4)},
        # No proxies at all is a choice.
        {ACTIVE: steady(0), COOLING: steady(0)},
    ),
    "LimpetProxyPasswordsUnderOldKeys": gauge("limpet_proxy_broker_old_passwords", 3, 0, after=1600),
}


def rules() -> list[dict[str, Any]]:
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def expectation(alert: str, series: dict[str, str], after: int, *, fires: bool) -> dict[str, Any]:
    query = f'count(count by (alertname) (ALERTS{{alertname="{alert}",alertstate="firing"}})) or vector(0)'
    return {
        "name": f"{alert}: {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": query, "eval_time": f"{after}m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}
        ],
    }


def promtool(*arguments: str) -> None:
    assert PROMTOOL.exists(), "promtool is not here: run `make promtool`"
    done = subprocess.run([str(PROMTOOL), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_x3_promtool_takes_every_rule() -> None:
    promtool("check", "rules", "--lint=all", *map(str, RULES))


def test_x3_every_alert_has_its_case() -> None:
    assert set(CASES) == {rule["alert"] for rule in rules() if "alert" in rule}


@pytest.mark.parametrize("alert", CASES)
def test_x3_an_alert_fires_stays_quiet_and_bears_missing_series(alert: str, tmp_path: Path) -> None:
    case = CASES[alert]
    tests = [
        expectation(alert, case.fires, case.after, fires=True),
        expectation(alert, case.quiet, case.after, fires=False),
        expectation(alert, {"something_else": steady(1)}, case.after, fires=case.missing),
    ]
    (path,) = (path for path in RULES if f"alert: {alert}\n" in path.read_text())
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(path)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(file))
