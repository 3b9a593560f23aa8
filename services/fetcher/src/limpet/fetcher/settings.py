"""What the fetcher can be told."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from limpet.fetcher.guard import networks_of
from limpet.kit.settings import Common


class Settings(Common):
    ops_port: int = Field(default=9102, ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    page_store: str = Field(
        description="Where page bodies are kept: file:///folder, s3://bucket/prefix, gs:// or az://."
    )
    concurrency: int = Field(default=100, ge=1, le=5000, description="Orders that are in hand at once.")
    allowed_networks: str = Field(
        default="",
        description="Networks that may be fetched although they are not public: CIDRs, comma-separated.",
    )
    allowed_hosts_file: Path | None = Field(
        default=None,
        description="File of hosts that may be fetched although they are not public: `host` or `host:port` a line.",
    )
    broker_address: str = Field(default="127.0.0.1:9204", description="host:port of the proxy broker's gRPC server.")
    max_body_bytes: int = Field(
        default=10_000_000, ge=1024, le=256_000_000, description="Largest page, in decoded bytes."
    )
    pool_size: int = Field(default=4, ge=1, le=100, description="Connections to PostgreSQL.")

    @field_validator("allowed_networks")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        networks_of(value)
        return value
