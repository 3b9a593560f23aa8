"""H5, I1: who may talk to whom, in the cluster and through NATS."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import yaml

from limpet.kit.guard import is_public
from limpet.kit.streams import CONSUMERS, STREAMS
from tests.support.helm import CHART, SERVICES, SETS, of, one, pods, rendered

POLICED = [values for values in SETS if values != "minimal"]


def policy(values: str, component: str) -> dict[str, Any]:
    return dict(one(rendered(values), "NetworkPolicy", f"-{component}")["spec"])


def blocks(values: str, component: str) -> list[dict[str, Any]]:
    """Address blocks without a port: whoever has one reaches out."""
    return [
        peer["ipBlock"]
        for rule in policy(values, component).get("egress", [])
        if "ports" not in rule
        for peer in rule.get("to", [])
        if "ipBlock" in peer
    ]


@pytest.mark.parametrize("values", POLICED)
def test_h5_what_is_not_allowed_is_denied_for_every_pod(values: str) -> None:
    deny = policy(values, "deny")
    assert set(deny) == {"podSelector", "policyTypes"}
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    for found in rendered(values):
        if found["kind"] in ("Deployment", "StatefulSet", "Job"):
            labels = found["spec"]["template"]["metadata"]["labels"]
            assert deny["podSelector"]["matchLabels"].items() <= labels.items()
    assert len(list(pods(rendered(values)))) >= 6


@pytest.mark.parametrize("values", POLICED)
def test_i1_only_fetchers_and_probes_of_proxies_reach_out_and_never_to_private_addresses(values: str) -> None:
    out = {service for service in SERVICES.values() if blocks(values, service)}
    # The full set switches webhooks on.
    assert out == {"fetcher", "proxy-broker"} | ({"scheduler"} if values == "full" else set())
    for service in out:
        for block in blocks(values, service):
            if "except" not in block:
                assert block["cidr"] == "10.9.0.0/16"
                continue
            for literal in (
                "127.0.0.1",
                "10.1.2.3",
                "172.31.0.1",
                "192.168.1.1",
                "169.254.169.254",
                "100.100.1.1",
                "::1",
                "fd00::1",
                "fe80::1",
            ):
                address = ip_address(literal)
                assert not is_public(address)
                inside = address.version == ip_network(block["cidr"]).version
                assert not inside or any(address in ip_network(cut) for cut in block["except"]), literal
            assert all(ip_network(cut).version == ip_network(block["cidr"]).version for cut in block["except"])


def test_h5_a_service_is_called_by_those_who_need_it_alone() -> None:
    callers = {
        (service, port["port"], peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"])
        for service in SERVICES.values()
        for rule in policy("default", service)["ingress"]
        for port in rule["ports"]
        for peer in rule.get("from", [])
        if "podSelector" in peer
    }
    assert callers == {
        ("scheduler", "http", "health"),
        ("parser", "http", "health"),
        ("proxy-broker", "http", "health"),
        ("proxy-broker", "grpc", "fetcher"),
    }


def test_h5_the_builtin_servers_are_reached_by_the_services_and_the_migration() -> None:
    for server in ("nats", "postgresql"):
        peers = policy("default", server)["ingress"][0]["from"]
        named = {peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in peers}
        assert named == {*SERVICES.values(), "migrate"}
        assert "egress" not in policy("default", server)


def test_h5_the_permissions_follow_the_streams() -> None:
    rights = yaml.safe_load((CHART / "files" / "nats-permissions.yaml").read_text())
    everybody = set(rights["everybody"])
    assert {f"$JS.API.STREAM.CREATE.{stream.name}" for stream in STREAMS} <= everybody
    assert {f"$JS.API.CONSUMER.DURABLE.CREATE.{spec.stream}.{spec.name}" for spec in CONSUMERS} <= everybody
    assert len(everybody) == 2 + len(STREAMS) + len(CONSUMERS)
    for spec in CONSUMERS:
        may = {
            service
            for service in SERVICES.values()
            if f"$JS.API.CONSUMER.MSG.NEXT.{spec.stream}.{spec.name}" in rights[service]["publish"]
        }
        assert len(may) == 1, spec.name
        (owner,) = may
        assert {f"$JS.ACK.{spec.stream}.{spec.name}.>", f"dead.{spec.name}"} <= set(rights[owner]["publish"])
    dangerous = ("UPDATE", "PURGE", "STREAM.DELETE", "CONSUMER.DELETE", "SNAPSHOT", "RESTORE")
    granted = [right for service in SERVICES.values() for right in (*rights["everybody"], *rights[service]["publish"])]
    assert [right for right in granted if any(word in right for word in dangerous) or right == ">"] == []


def test_h5_the_server_has_a_user_for_each_service() -> None:
    config = one(rendered("default"), "ConfigMap", "-nats")["data"]["nats.conf"]
    for service in SERVICES.values():
        assert f"user: limpet-{service}" in config
        assert f"_INBOX_limpet-{service}.>" in config
    assert of(rendered("external"), "ConfigMap") != []
