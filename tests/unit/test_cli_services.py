"""Which processes there are, and what each finds in its environment."""

from __future__ import annotations

import hashlib
from pathlib import Path

from limpet.cli.local.services import DATABASES, Shape, Wiring, command, environment, service_of

SHAPE = Shape(fetchers=2, schedulers=2, port=8080)


def wiring(**inherited: str) -> Wiring:
    ports = {name: 20_000 + number for number, name in enumerate(SHAPE.port_names())} | {"health.http": 8080}
    dsns = {name: f"postgresql:///{name}" for name in DATABASES}
    return Wiring(
        data=Path("/data"),
        ports=ports,
        dsns=dsns,
        nats_url="nats://n",
        key="the-key",
        secret_key="sealing",
        webhook_secret="master",
        inherited=inherited,
    )


def test_every_process_gets_its_own_database_and_ports() -> None:
    environments = [environment(name, wiring()) for name in SHAPE.names()]
    assert {env["LIMPET_PG_DSN"] for env in environments} == {f"postgresql:///{name}" for name in DATABASES}
    used = [env[name] for env in environments for name in env if name.endswith("_PORT")]
    assert len(used) == len(set(used))


def test_the_key_itself_reaches_no_process() -> None:
    for name in SHAPE.names():
        env = environment(name, wiring(LIMPET_API_KEY="the-key", LIMPET_URL="http://elsewhere"))
        assert "the-key" not in env.values()
        assert "LIMPET_URL" not in env
    keys = environment("scheduler-1", wiring())["LIMPET_API_KEYS"]
    assert keys == "admin:" + hashlib.sha256(b"the-key").hexdigest()


def test_tuning_variables_pass_through_and_wiring_wins() -> None:
    env = environment("scheduler-1", wiring(LIMPET_RETRY_BASE_SECONDS="1", LIMPET_PG_DSN="mine"))
    assert env["LIMPET_RETRY_BASE_SECONDS"] == "1"
    assert env["LIMPET_PG_DSN"] == "postgresql:///limpet_scheduler"


def test_webhooks_and_fetches_go_by_the_same_list_of_allowed_hosts_and_only_webhooks_are_signed() -> None:
    scheduler, fetcher, parser = (environment(name, wiring()) for name in ("scheduler-2", "fetcher-1", "parser"))
    assert scheduler["LIMPET_ALLOWED_HOSTS_FILE"] == fetcher["LIMPET_ALLOWED_HOSTS_FILE"] == "/data/allowed-hosts"
    assert scheduler["LIMPET_WEBHOOK_SECRET"] == "master"
    assert "LIMPET_WEBHOOK_SECRET" not in fetcher | parser


def test_the_front_door_knows_the_ports_of_those_behind_it() -> None:
    known, door = wiring(), environment("health", wiring())
    assert door["LIMPET_HTTP_PORT"] == "8080"
    assert door["LIMPET_PARSER_URL"] == f"http://127.0.0.1:{known.ports['parser.http']}"
    broker = environment("proxy-broker", known)["LIMPET_GRPC_PORT"]
    assert environment("fetcher-2", known)["LIMPET_BROKER_ADDRESS"] == f"127.0.0.1:{broker}"


def test_a_process_runs_the_module_of_its_service() -> None:
    assert service_of("proxy-broker") == "proxy-broker"
    assert command("fetcher-2", wiring()).argv[-1] == "limpet.fetcher.main"
    assert command("proxy-broker", wiring()).argv[-1] == "limpet.proxy_broker.main"


def test_those_that_make_work_stop_before_those_that_keep_it() -> None:
    order = SHAPE.stop_order()
    assert order[0] == ["fetcher-1", "fetcher-2"]
    assert order[-2:] == [["nats"], ["postgres"]]
    assert {name for group in order for name in group} == {*SHAPE.names(), "nats", "postgres"}
