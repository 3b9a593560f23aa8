"""H5: both helms take the chart, agree about it, and Kubernetes knows every object."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.helm import CHART, HELMS, SETS, files_of, helm, of, render, rendered

# Objects of operators: their schemas are no part of Kubernetes'.
CUSTOM = {"ScaledObject", "HTTPRoute", "PodMonitor", "ServiceMonitor", "PrometheusRule"}


def comparable(objects: list[dict[str, Any]]) -> list[str]:
    """Generated keys are other ones each time."""
    for found in objects:
        if found["kind"] == "Secret":
            found["data"] = sorted(found["data"])
    return sorted(json.dumps(found, sort_keys=True) for found in objects)


@pytest.mark.parametrize("values", SETS)
@pytest.mark.parametrize("version", HELMS)
def test_h5_helm_finds_nothing_to_say_against_the_chart(version: str, values: str) -> None:
    done = helm(version, "lint", "--strict", str(CHART), *files_of(values))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", SETS)
def test_h5_helm_3_and_4_render_the_same_objects(values: str) -> None:
    assert comparable(render("helm3", values)) == comparable(render("helm4", values))


@pytest.mark.parametrize("kubernetes", ["1.29", "1.33", "1.37"])
@pytest.mark.parametrize("values", SETS)
def test_h5_kubernetes_knows_every_object_and_every_field(values: str, kubernetes: str) -> None:
    checked = 0
    for found in rendered(values):
        if found["kind"] not in CUSTOM:
            kubernetes_validate.validate(found, kubernetes, strict=True)
            checked += 1
    assert checked > 20


def test_h5_the_look_at_fields_sees_a_misspelt_one() -> None:
    deployment = json.loads(json.dumps(of(rendered("default"), "Deployment")[0]))
    deployment["spec"]["replicaz"] = 2
    with pytest.raises(kubernetes_validate.ValidationError, match="replicaz"):
        kubernetes_validate.validate(deployment, "1.37", strict=True)


def test_h5_no_two_objects_have_the_same_name() -> None:
    for values in SETS:
        names = [(found["kind"], found["metadata"]["name"]) for found in rendered(values)]
        assert sorted(names) == sorted(set(names))


def test_h5_the_chart_names_its_version_and_the_oldest_kubernetes() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["kubeVersion"] == ">=1.29.0-0"
    done = helm("helm4", "template", "limpet", str(CHART), "--kube-version", "1.28.0")
    assert done.returncode != 0
    assert "1.29" in done.stderr


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("fetcher.replicaz=2", "replicaz"),
        ("fetcher.replicas=-1", "replicas"),
        ("fetcher.autoscaling.kind=vpa", "kind"),
        ("scheduler.autoscaling.kind=hpa", "autoscaling"),
        ("scheduler.drainSeconds=soon", "drainSeconds"),
        ("scheduler.settings.LIMPET_LOG_LEVEL=DEBUG", "LIMPET_LOG_LEVEL"),
        ("fetcher.image.digest=sha256:12", "digest"),
        ("parser.resources.limits.memory=much", "memory"),
        ("nats.mode=embedded", "mode"),
        ("nats.external.url=http://nats", "url"),
        ("postgresql.mode=external", "existingSecret"),
        ("pageStore.mode=url", "url"),
        ("pageStore.url=ftp://pages", "url"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("logLevel=loud", "logLevel"),
        ("allowedNetworks[0]=everything", "allowedNetworks"),
        ("ingress.enabled=true", "host"),
        ("httpRoute.enabled=true", "parentRefs"),
        # What a schema cannot say, the chart does.
        ("nats.mode=external", "nats.external"),
        ("nats.streamReplicas=3", "nats.streamReplicas"),
        ("fetcher.autoscaling.min=50", "fetcher.autoscaling.min"),
        ("metrics.podMonitor.enabled=true,metrics.serviceMonitor.enabled=true", "podMonitor"),
    ],
)
def test_h5_a_wrong_value_is_refused_by_name(version: str, given: str, named: str) -> None:
    done = helm(version, "template", "limpet", str(CHART), "--set", given)
    assert done.returncode != 0
    assert named in done.stderr, done.stderr
