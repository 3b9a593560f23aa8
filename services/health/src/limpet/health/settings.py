"""What the health service is told at start."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, PositiveFloat, PositiveInt

from limpet.kit.settings import RestCommon


class Settings(RestCommon):
    """Environment of the health service; its REST port is the front door."""

    ops_port: int = Field(default=9105, ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    http_port: int = Field(default=8080, ge=0, le=65535, description="Port of the front door.")
    scheduler_url: str = Field(
        default="http://127.0.0.1:8081", pattern=r"^https?://[^/]+$", description="REST address of the scheduler."
    )
    parser_url: str = Field(
        default="http://127.0.0.1:8082", pattern=r"^https?://[^/]+$", description="REST address of the parser."
    )
    proxy_broker_url: str = Field(
        default="http://127.0.0.1:8084", pattern=r"^https?://[^/]+$", description="REST address of the proxy broker."
    )
    upstream_timeout_seconds: PositiveFloat = Field(
        default=60.0, description="Longest silence of a service behind the front door before it counts as away."
    )
    max_body_bytes: PositiveInt = Field(
        default=1 << 30, description="Largest body that the front door passes on; the owning service may allow less."
    )
    fleet_limit: PositiveInt = Field(default=5_000, description="Workers watched at once; more are counted only.")
    forget_after_seconds: PositiveFloat = Field(
        default=10.0, description="Silence after which a worker counts as gone; workers beat every 2 s."
    )
    refresh_seconds: PositiveFloat = Field(default=1.0, description="Age at which the answer of /health is made anew.")
    history_every: timedelta = Field(
        default=timedelta(minutes=1), gt=timedelta(0), description="Time between rows of a worker in its health log."
    )
    history_kept: timedelta = Field(
        default=timedelta(days=14), gt=timedelta(0), description="Age at which health rows and errors are deleted."
    )
