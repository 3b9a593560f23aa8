"""Metrics: one file lists them, their names follow one pattern, their labels have few values."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import pytest

from tests.support.members import KIT, MEMBERS, ROOT, SERVICE_MEMBERS, Member, tree

KINDS = ("Counter", "Gauge", "Histogram", "Summary", "Info", "Enum")
CLOSED = {"source", "outcome", "reason", "state", "status_class", "event"}
# Closed in code: each has a fixed set of values where it is set.
CLOSED |= {
    "service",  # health: the five services and "other"
    "status",  # health: the verdicts
    "upstream",  # health: the services behind the front door
    "scope",  # proxy-broker: "proxy" or "pair"
    "result",  # scheduler: how a run ended, "committed" or "aborted"
    "consumer",  # kit, health: names in limpet.kit.streams
    "dependency",  # kit: SERVERS in limpet.kit.ops
    "version",  # kit: the one that runs
}
NEVER = {"url", "task", "task_id", "domain", "host", "path", "proxy", "proxy_id", "worker_id", "error", "message"}
UNITS = ("_seconds", "_bytes", "_total")


@dataclass(frozen=True)
class Metric:
    place: str
    kind: str
    name: str
    labels: tuple[str, ...]


def metrics(member: Member) -> list[Metric]:
    found = []
    for path in member.modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
                if not node.args or not isinstance(node.args[0], ast.Constant):
                    continue
                labels = next((word.value for word in node.keywords if word.arg == "labelnames"), None)
                labels = labels or (node.args[2] if len(node.args) > 2 else None)
                names = ast.literal_eval(labels) if labels is not None else ()
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                found.append(Metric(place, node.func.id, str(node.args[0].value), tuple(names)))
    return found


def prefix(member: Member) -> str:
    return f"limpet_{member.package.split('.')[1]}_"


def test_there_are_metrics_in_every_service() -> None:
    assert [member.distribution for member in SERVICE_MEMBERS if not metrics(member)] == []


@pytest.mark.parametrize("member", SERVICE_MEMBERS, ids=lambda member: member.distribution)
def test_metrics_are_declared_in_one_file_and_carry_the_name_of_their_service(member: Member) -> None:
    wrong = [
        f"{metric.place}: {metric.name}"
        for metric in metrics(member)
        if not metric.name.startswith(prefix(member)) or "/metrics.py:" not in metric.place
    ]
    assert wrong == []


def test_counters_end_in_total_and_nothing_else_does() -> None:
    wrong = [
        f"{metric.place}: {metric.name}"
        for member in MEMBERS
        for metric in metrics(member)
        if (metric.kind == "Counter") != metric.name.endswith("_total")
    ]
    assert wrong == []


def test_histograms_say_their_unit() -> None:
    wrong = [
        f"{metric.place}: {metric.name}"
        for member in MEMBERS
        for metric in metrics(member)
        if metric.kind in ("Histogram", "Summary") and not metric.name.endswith(UNITS)
    ]
    assert wrong == []


def test_labels_come_from_closed_sets() -> None:
    assert not CLOSED & NEVER
    wrong = [
        f"{metric.place}: {metric.name} has the label {label}"
        for member in (*SERVICE_MEMBERS, KIT)
        for metric in metrics(member)
        for label in metric.labels
        if label not in CLOSED
    ]
    assert wrong == []


def test_no_two_metrics_have_the_same_name() -> None:
    names = [metric.name for member in MEMBERS for metric in metrics(member)]
    assert sorted(names) == sorted(set(names))
