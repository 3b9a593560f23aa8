"""What the fetcher can be told."""

from __future__ import annotations

from pydantic import Field, field_validator

from limpet.fetcher.pressure import Limits
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
    network_targets: str = Field(
        default="",
        description="host:port, comma-separated; while none can be connected to, the fetcher pauses. Empty means off.",
    )
    memory_soft_limit_mb: int = Field(
        default=1536, ge=0, description="Above this many MiB no orders are taken until it is less. 0 means no limit."
    )
    memory_hard_limit_mb: int = Field(
        default=2048, ge=0, description="Above this many MiB the fetcher drains and ends. 0 means no limit."
    )
    memory_soft_share: float = Field(
        default=0.8, gt=0, le=1, description="The soft limit as a share of the cgroup's; the lower one holds."
    )
    memory_hard_share: float = Field(
        default=0.95, gt=0, le=1, description="The hard limit as a share of the cgroup's; the lower one holds."
    )

    @field_validator("network_targets")
    @classmethod
    def _are_targets(cls, value: str) -> str:
        targets_of(value)
        return value

    @property
    def targets(self) -> list[tuple[str, int]]:
        return targets_of(self.network_targets)

    @property
    def memory_limits(self) -> Limits:
        return Limits(
            soft_share=self.memory_soft_share,
            hard_share=self.memory_hard_share,
            soft_bytes=self.memory_soft_limit_mb << 20,
            hard_bytes=self.memory_hard_limit_mb << 20,
        )


def targets_of(text: str) -> list[tuple[str, int]]:
    """host:port pairs; an IPv6 address stands in brackets."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = part.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    return found
