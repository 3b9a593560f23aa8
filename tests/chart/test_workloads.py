"""H5: what the chart makes of the five services, and whether they would take it."""

from __future__ import annotations

import base64
import importlib
import json
from typing import Any

import pytest

from limpet.kit.streams import CONSUMERS
from tests.support.helm import SERVICES, SETS, environment, of, one, pods, render, rendered

# What the secrets hold, by the end of the reference to them.
SECRET = {
    "api-keys": "admin:" + "0" * 64,
    "secret-keys": base64.urlsafe_b64encode(b"0" * 32).decode(),
    "webhook-secret": "w" * 32,
}


def container(values: str, service: str) -> dict[str, Any]:
    (found,) = one(rendered(values), "Deployment", f"-{service}")["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("values", SETS)
@pytest.mark.parametrize("service", SERVICES.values())
def test_h5_a_service_starts_with_the_environment_that_it_gets(
    service: str, values: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = importlib.import_module(f"limpet.{service.replace('-', '_')}.settings").Settings
    given = environment(container(values, service))
    ours = {name: value for name, value in given.items() if name.startswith("LIMPET_")}
    unknown = {name for name in ours if name.removeprefix("LIMPET_").lower() not in settings.model_fields}
    assert unknown == set()
    for name, value in ours.items():
        monkeypatch.setenv(name, SECRET.get(value.rpartition("/")[2], value))
    loaded = settings()
    assert loaded.drain_seconds == float(ours["LIMPET_DRAIN_SECONDS"])
    assert loaded.ops_host == "0.0.0.0"


@pytest.mark.parametrize("values", SETS)
@pytest.mark.parametrize("service", SERVICES.values())
def test_h5_ports_of_probes_services_and_settings_are_the_same(service: str, values: str) -> None:
    pod = container(values, service)
    env, ports = environment(pod), {port["name"]: port["containerPort"] for port in pod["ports"]}
    assert str(ports["ops"]) == env["LIMPET_OPS_PORT"]
    assert str(ports.get("http", "")) == env.get("LIMPET_HTTP_PORT", "")
    assert str(ports.get("grpc", "")) == env.get("LIMPET_GRPC_PORT", "")
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert pod[probe]["httpGet"] == {"path": path, "port": "ops"}
    for found in (*of(rendered(values), "Service", f"-{service}"), *of(rendered(values), "Service", f"-{service}-rpc")):
        for port in found["spec"]["ports"]:
            assert port["port"] == ports[port["targetPort"]]


def test_h5_health_and_fetchers_find_the_others() -> None:
    objects = rendered("default")
    addresses = {
        f"{found['metadata']['name']}:{port['port']}"
        for found in of(objects, "Service")
        for port in found["spec"]["ports"]
    }
    health, fetcher = environment(container("default", "health")), environment(container("default", "fetcher"))
    wanted = {health[f"LIMPET_{name}_URL"].removeprefix("http://") for name in ("SCHEDULER", "PARSER", "PROXY_BROKER")}
    wanted.add(fetcher["LIMPET_BROKER_ADDRESS"].removeprefix("dns:///"))
    wanted.add(fetcher["LIMPET_NATS_URL"].rpartition("@")[2])
    wanted.add(fetcher["LIMPET_PG_DSN"].rpartition("@")[2].partition("/")[0])
    assert wanted <= addresses


@pytest.mark.parametrize("values", SETS)
def test_h5_work_in_hand_has_its_time_before_a_pod_is_killed(values: str) -> None:
    for service in SERVICES.values():
        pod = one(rendered(values), "Deployment", f"-{service}")["spec"]["template"]["spec"]
        (main,) = pod["containers"]
        before = int(
            main.get("lifecycle", {"preStop": {"exec": {"command": ["", "0"]}}})["preStop"]["exec"]["command"][1]
        )
        drain = int(environment(main)["LIMPET_DRAIN_SECONDS"])
        assert pod["terminationGracePeriodSeconds"] >= before + drain + 15
        # Only who is called has to wait until nobody calls any more.
        assert (before > 0) == (service != "fetcher")


@pytest.mark.parametrize("values", SETS)
def test_h5_every_pod_meets_pod_security_restricted(values: str) -> None:
    checked = 0
    for name, pod in pods(rendered(values)):
        security = pod["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"] > 0) == (True, True), name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False), name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), name
        assert all(
            set(volume) <= {"name", "emptyDir", "configMap", "secret", "persistentVolumeClaim"}
            for volume in pod["volumes"]
        )
        for part in (*pod.get("initContainers", []), *pod["containers"]):
            own = part["securityContext"]
            assert own["allowPrivilegeEscalation"] is False, name
            assert own["readOnlyRootFilesystem"] is True, name
            assert own["capabilities"] == {"drop": ["ALL"]}, name
            assert {"cpu", "memory"} <= set(part["resources"]["requests"]), name
            assert "memory" in part["resources"]["limits"], name
            assert not any("hostPort" in port for port in part.get("ports", [])), name
            checked += 1
    assert checked >= 15


@pytest.mark.parametrize("values", SETS)
def test_h5_every_service_is_migrated_by_a_job_and_waits_for_it(values: str) -> None:
    (job,) = of(rendered(values), "Job")
    assert "helm.sh/hook" not in json.dumps(job)
    made = {part["command"][2]: environment(part) for part in job["spec"]["template"]["spec"]["containers"]}
    for service in SERVICES.values():
        package = f"limpet.{service.replace('-', '_')}"
        (waits,) = one(rendered(values), "Deployment", f"-{service}")["spec"]["template"]["spec"]["initContainers"]
        assert waits["command"] == ["python", "-m", package, "wait"]
        assert importlib.import_module(f"{package}.__main__")
        assert made[package] == environment(waits)
        assert waits["image"] == container(values, service)["image"]


def test_h5_another_version_has_another_job() -> None:
    (one_job,), (other,) = (
        of(render("helm4", "default", *more), "Job") for more in ((), ("--set", "parser.image.tag=v2"))
    )
    assert one_job["metadata"]["name"] != other["metadata"]["name"]
    assert one_job["metadata"]["name"].startswith("limpet-migrate-0-1-0-")


@pytest.mark.parametrize("values", ["default", "full"])
def test_h5_a_number_of_pods_is_marked_so_that_a_scaled_one_can_be_kept(values: str) -> None:
    for found in of(rendered(values), "Deployment"):
        mark = found["metadata"]["annotations"]["limpet/replicas"]
        replicas = found["spec"].get("replicas")
        assert mark in ("autoscaled", "null" if replicas is None else str(replicas))


def test_h5_pods_spread_and_node_drains_take_one_at_a_time() -> None:
    objects = rendered("default")
    for service in SERVICES.values():
        pod = one(objects, "Deployment", f"-{service}")["spec"]["template"]
        budget = one(objects, "PodDisruptionBudget", f"-{service}")["spec"]
        assert budget["maxUnavailable"] == 1
        assert budget["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        keys = {spread["topologyKey"] for spread in pod["spec"]["topologySpreadConstraints"]}
        assert keys == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}


def test_h5_keda_looks_at_consumers_that_there_are() -> None:
    known = {(spec.stream, spec.name) for spec in CONSUMERS}
    seen = set()
    for found in of(rendered("external"), "ScaledObject"):
        for trigger in found["spec"]["triggers"]:
            assert trigger["type"] == "nats-jetstream"
            assert all(isinstance(value, str) for value in trigger["metadata"].values())
            seen.add((trigger["metadata"]["stream"], trigger["metadata"]["consumer"]))
    assert seen == {("FETCH", "fetcher-high"), ("FETCH", "fetcher-normal"), ("PAGES", "parser")}
    assert seen <= known


def test_h5_production_takes_servers_keys_and_bucket_from_outside() -> None:
    objects = rendered("external")
    assert of(objects, "Secret") == of(objects, "StatefulSet") == of(objects, "PersistentVolumeClaim") == []
    env = environment(container("external", "fetcher"))
    assert env["LIMPET_PG_DSN"] == "limpet-postgresql/fetcher"
    assert env["LIMPET_NATS_URL"] == "limpet-nats/fetcher"
    assert env["LIMPET_PAGE_STORE"] == "s3://pages/limpet"
    assert container("external", "fetcher")["envFrom"] == [{"secretRef": {"name": "limpet-bucket"}}]
    assert container("external", "fetcher")["image"] == "registry.example/crawling/limpet-fetcher:1.2.3"
    mounted = {mount["mountPath"] for mount in container("external", "fetcher")["volumeMounts"]}
    assert {"/etc/limpet/nats-ca", "/etc/limpet/postgresql-ca"} <= mounted


def test_h5_a_generated_key_fits_its_hash_and_its_services() -> None:
    import hashlib

    from limpet.kit.keys import Keys
    from limpet.proxy_broker.vault import Vault

    data = {
        name: base64.b64decode(value).decode()
        for name, value in one(render("helm3"), "Secret", "-keys")["data"].items()
    }
    assert data["api-keys"] == "admin:" + hashlib.sha256(data["admin-key"].encode()).hexdigest()
    assert Keys.parse(data["api-keys"]).role_of(data["admin-key"]) == "admin"
    Vault(data["secret-keys"])
    assert len(data["webhook-secret"]) >= 32


def test_h5_the_front_door_is_reached_through_ingress_and_gateway() -> None:
    objects = rendered("full")
    (ingress,), (route,) = of(objects, "Ingress"), of(objects, "HTTPRoute")
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "crawler-health", "port": {"name": "http"}}
    assert route["spec"]["rules"][0]["backendRefs"] == [{"name": "crawler-health", "port": 8080}]
    assert one(objects, "Service", "-health")["spec"]["ports"][0] == {
        "name": "http",
        "port": 8080,
        "targetPort": "http",
    }


def test_h5_monitors_find_the_ops_port_of_every_service() -> None:
    objects = rendered("full")
    (monitor,) = of(objects, "PodMonitor")
    selector = monitor["spec"]["selector"]
    (components,) = selector["matchExpressions"]
    assert sorted(components["values"]) == sorted(SERVICES.values())
    for service in SERVICES.values():
        labels = one(objects, "Deployment", f"-{service}")["spec"]["template"]["metadata"]["labels"]
        assert selector["matchLabels"].items() <= labels.items()
        assert labels["app.kubernetes.io/component"] == service
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
