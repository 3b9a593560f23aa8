"""Alert rules speak of metrics that there are, and of runbooks that say what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from limpet.proxy_broker.alerts import CONDITIONS, PROXY_STATES
from tests.house.test_metrics import metrics
from tests.support.members import KIT, ROOT, SERVICE_MEMBERS

FILES = sorted((ROOT / "deploy" / "helm" / "limpet" / "files" / "alerts").glob("*.yaml"))
DURATION = re.compile(r"\d+[smhd]")


def rules(path: Path) -> list[dict[str, Any]]:
    document = yaml.safe_load(path.read_text())
    assert list(document) == ["groups"]
    assert all(set(group) == {"name", "rules"} for group in document["groups"])
    return [rule for group in document["groups"] for rule in group["rules"] if "alert" in rule]


def recorded() -> set[str]:
    """The names that recording rules make."""
    documents = [yaml.safe_load(path.read_text()) for path in FILES]
    found = [rule for document in documents for group in document["groups"] for rule in group["rules"]]
    return {rule["record"] for rule in found if "record" in rule}


def test_there_are_alert_rules() -> None:
    assert [path.name for path in FILES] == ["parser.yaml", "platform.yaml", "proxy-broker.yaml"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_b9_a_rule_has_the_shape_that_prometheus_reads(path: Path) -> None:
    found = rules(path)
    assert len({rule["alert"] for rule in found}) == len(found)
    for rule in found:
        assert (
            {"alert", "expr", "labels", "annotations"} <= set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        )
        assert re.fullmatch(r"Limpet[A-Za-z]+", rule["alert"])
        assert DURATION.fullmatch(rule.get("for", "0s"))
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["expr"].count("(") == rule["expr"].count(")")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_b9_every_metric_of_a_rule_is_declared_with_the_label_it_uses(path: Path) -> None:
    members = (*SERVICE_MEMBERS, KIT)
    declared = {metric.name: set(metric.labels) for member in members for metric in metrics(member)}
    document = yaml.safe_load(path.read_text())
    for rule in (rule for group in document["groups"] for rule in group["rules"]):
        used = re.findall(r"(limpet_\w+)(?:\{(\w+)=)?", rule["expr"])
        own = set(re.findall(r"limpet:[\w:]+", rule["expr"]))
        assert own <= recorded(), rule
        assert used or own, rule
        for name, label in used:
            assert name in declared, (rule, name)
            assert not label or label in declared[name], (rule, name, label)


def test_b9_every_condition_and_only_known_values_have_a_rule() -> None:
    text = " ".join(rule["expr"] for path in FILES if path.stem == "proxy-broker" for rule in rules(path))
    assert set(re.findall(r'reason="(\w+)"', text)) == set(CONDITIONS)
    assert set(re.findall(r'state="(\w+)"', text)) <= set(PROXY_STATES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_b9_every_rule_leads_to_a_section_of_a_runbook(path: Path) -> None:
    for rule in rules(path):
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, rule["alert"]
