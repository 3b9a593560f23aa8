"""X3: four dashboards whose queries parse and speak of metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest
import yaml

from tests.house.test_metrics import metrics
from tests.support.helm import CHART, of, rendered
from tests.support.members import KIT, SERVICE_MEMBERS
from tools.dashboards import DASHBOARDS

# What every Python process exports, and what recording rules make.
STANDARD = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
SUFFIX = re.compile(r"_(bucket|sum|count)$")
FILES = sorted((CHART / "files" / "dashboards").glob("*.json"))


def queries() -> Iterator[str]:
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            yield from panel.queries


def test_x3_there_are_four_dashboards_and_they_are_fresh() -> None:
    assert {path.stem for path in FILES} == {"overview", "domains", "proxies", "services"}


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_x3_a_query_parses_and_names_metrics_that_there_are(query: str) -> None:
    promql_parser.parse(query)
    declared = {metric.name: set(metric.labels) for member in (*SERVICE_MEMBERS, KIT) for metric in metrics(member)}
    rules = [yaml.safe_load(path.read_text()) for path in (CHART / "files" / "alerts").glob("*.yaml")]
    recorded = {
        rule["record"]
        for document in rules
        for group in document["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    names = set(re.findall(r"\b(?:limpet|process)_\w+|limpet:[\w:]+", query))
    assert names
    for name in names:
        base = SUFFIX.sub("", name)
        assert name in declared or base in declared or name in recorded | STANDARD, name
    grouped = {label.strip() for found in re.findall(r"by \(([^)]*)\)", query) for label in found.split(",")}
    known = set().union(*(declared.get(name) or declared.get(SUFFIX.sub("", name), set()) for name in names))
    assert grouped <= known | {"le", "job"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_x3_a_panel_has_a_title_a_unit_and_asks_the_chosen_source(path: Path) -> None:
    whole = json.loads(path.read_text())
    assert whole["templating"]["list"][0]["name"] == "datasource"
    places = [tuple(panel["gridPos"].values()) for panel in whole["panels"]]
    assert len(places) == len(set(places))
    for panel in whole["panels"]:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"


def test_x3_the_chart_packs_dashboards_and_rules() -> None:
    packed = [
        found for found in of(rendered("full"), "ConfigMap") if "grafana_dashboard" in found["metadata"]["labels"]
    ]
    texts = {name: text for found in packed for name, text in found["data"].items()}
    assert {name: json.loads(text) for name, text in texts.items()} == {
        f"limpet-{path.name}": json.loads(path.read_text()) for path in FILES
    }
    rules = {found["metadata"]["name"]: found["spec"] for found in of(rendered("full"), "PrometheusRule")}
    for path in (CHART / "files" / "alerts").glob("*.yaml"):
        assert rules[f"crawler-{path.stem}"] == yaml.safe_load(path.read_text())
