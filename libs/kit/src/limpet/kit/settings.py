"""Settings from the environment: one frozen class per service, errors that name the variable."""

from __future__ import annotations

import os
import socket
import sys
from typing import TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from limpet.kit.keys import BadKeys, Keys

EXIT_BAD_CONFIGURATION = 78


class Common(BaseSettings):
    """What every process needs."""

    model_config = SettingsConfigDict(env_prefix="LIMPET_", frozen=True, extra="ignore")

    pg_dsn: SecretStr = Field(description="PostgreSQL address of this service's own database.")
    nats_url: str = Field(default="nats://127.0.0.1:4222", description="Address of NATS.")
    nats_ca_file: str = Field(
        default="", description="File with the CA of NATS's certificate (`tls://` addresses). Empty: the system's CAs."
    )
    stream_replicas: int = Field(default=1, ge=1, le=5, description="Copies that JetStream keeps of each stream.")
    log_level: str = Field(
        default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR|CRITICAL)$", description="Least log level."
    )
    ops_host: str = Field(default="127.0.0.1", description="Address that /livez, /readyz and /metrics listen on.")
    ops_port: int = Field(ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    worker_id: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="Name of this process in beats and leases.",
    )
    staleness_threshold_seconds: float = Field(
        default=300.0, gt=0, description="Work in hand that has not moved for so long has stalled."
    )
    drain_seconds: float = Field(default=20.0, gt=0, description="Time that work in hand gets to finish on SIGTERM.")


class RestCommon(Common):
    """What a process with a REST API needs besides."""

    http_host: str = Field(default="127.0.0.1", description="Address that the REST API listens on.")
    http_port: int = Field(ge=0, le=65535, description="Port of the REST API.")
    api_keys: SecretStr = Field(description="API keys: `role:sha256hex`, comma-separated; roles read, operate, admin.")

    @field_validator("api_keys")
    @classmethod
    def _are_keys(cls, value: SecretStr) -> SecretStr:
        try:
            Keys.parse(value.get_secret_value())
        except BadKeys as error:
            raise ValueError(str(error)) from None
        return value

    @property
    def keys(self) -> Keys:
        return Keys.parse(self.api_keys.get_secret_value())


S = TypeVar("S", bound=BaseSettings)


def load(settings: type[S]) -> S:
    """Read the environment. A bad value ends the process with a message that names the variable."""
    try:
        return settings()
    except ValidationError as error:
        prefix = settings.model_config.get("env_prefix", "")
        for problem in error.errors():
            name = prefix + "_".join(str(part) for part in problem["loc"]).upper()
            sys.stderr.write(f"configuration: {name}: {problem['msg']}\n")
        raise SystemExit(EXIT_BAD_CONFIGURATION) from None
