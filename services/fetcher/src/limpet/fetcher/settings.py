"""What the fetcher can be told."""

from __future__ import annotations

from pydantic import Field

from limpet.kit.guard import GuardedCommon


class Settings(GuardedCommon):
    ops_port: int = Field(default=9102, ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    page_store: str = Field(
        description="Where page bodies are kept: file:///folder, s3://bucket/prefix, gs:// or az://."
    )
    concurrency: int = Field(default=100, ge=1, le=5000, description="Orders that are in hand at once.")
    broker_address: str = Field(
        default="127.0.0.1:9204",
        description="host:port of the proxy broker's gRPC server. Several take turns: a name with several addresses "
        "(`dns:///name:port`), or IPv4 addresses with ports, comma-separated.",
    )
    max_body_bytes: int = Field(
        default=10_000_000, ge=1024, le=256_000_000, description="Largest page, in decoded bytes."
    )
    min_bytes_per_second: int = Field(
        default=1000,
        ge=0,
        le=1_000_000,
        description="A body that comes slower than this over 20 s, once its first 10 s are over, is given up. 0: no such rule.",
    )
    retention_pages_days: int = Field(
        default=90,
        ge=0,
        le=36_500,
        description="Rows of answers are kept for so long, and page bodies for so long after their last use. 0: for ever.",
    )
    pool_size: int = Field(default=4, ge=1, le=100, description="Connections to PostgreSQL.")
