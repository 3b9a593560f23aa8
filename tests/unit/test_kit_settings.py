"""Settings from the environment: good ones are typed, bad ones end the process and name the variable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from limpet.kit.settings import EXIT_BAD_CONFIGURATION, RestCommon, load

GOOD = {
    "LIMPET_PG_DSN": "postgresql://me:hush@db/limpet",
    "LIMPET_OPS_PORT": "9100",
    "LIMPET_HTTP_PORT": "8000",
    "LIMPET_API_KEYS": "admin:" + "0" * 64,
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in RestCommon.model_fields:
        monkeypatch.delenv(f"LIMPET_{name.upper()}", raising=False)
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)


def test_a_good_environment_is_read_and_typed() -> None:
    settings = load(RestCommon)
    assert (settings.ops_port, settings.nats_url, settings.stream_replicas) == (9100, "nats://127.0.0.1:4222", 1)
    assert settings.pg_dsn.get_secret_value() == GOOD["LIMPET_PG_DSN"]
    assert settings.worker_id


def test_settings_do_not_change_and_do_not_show_secrets() -> None:
    settings = load(RestCommon)
    with pytest.raises(ValidationError):
        settings.ops_port = 1
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LIMPET_OPS_PORT", "many"),
        ("LIMPET_OPS_PORT", "65536"),
        ("LIMPET_OPS_PORT", None),
        ("LIMPET_PG_DSN", None),
        ("LIMPET_LOG_LEVEL", "LOUD"),
        ("LIMPET_STREAM_REPLICAS", "0"),
        ("LIMPET_DRAIN_SECONDS", "0"),
        ("LIMPET_API_KEYS", None),
        ("LIMPET_API_KEYS", "admin:secret"),
    ],
)
def test_a_bad_value_ends_the_process_and_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        load(RestCommon)
    assert caught.value.code == EXIT_BAD_CONFIGURATION == 78
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"configuration: {name}: ")


def test_every_bad_value_is_named_at_once_and_no_secret_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIMPET_OPS_PORT", "x")
    monkeypatch.setenv("LIMPET_HTTP_PORT", "y")
    with pytest.raises(SystemExit):
        load(RestCommon)
    said = capsys.readouterr().err
    assert "LIMPET_OPS_PORT" in said
    assert "LIMPET_HTTP_PORT" in said
    assert "hush" not in said
