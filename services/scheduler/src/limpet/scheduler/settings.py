"""What can be set for the scheduler, all of it in the environment."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from limpet.kit.guard import GuardedCommon
from limpet.kit.settings import RestCommon

LEAST_SECRET = 32


class Settings(RestCommon, GuardedCommon):
    ops_port: int = Field(default=9101, ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    http_port: int = Field(default=8081, ge=0, le=65535, description="Port of the REST API.")
    page_store: str = Field(
        description="Where page bodies are kept, robots.txt among them: file:///folder, s3://bucket/prefix, gs:// or az://."
    )
    retry_base_seconds: float = Field(
        default=60.0, gt=0, description="Wait before the first retry of an error; it doubles."
    )
    block_base_seconds: float = Field(
        default=30.0, gt=0, description="Wait after the first block; it doubles up to 300 s."
    )
    fetch_timeout_seconds: float = Field(default=30.0, gt=0, le=600, description="Longest time for one request.")
    parse_lease_seconds: float = Field(
        default=60.0, gt=0, description="Time a parser gets before the page is asked for again."
    )
    lease_margin_seconds: float = Field(
        default=5.0, gt=0, description="Time between the end of a request and of its permit."
    )
    order_patience_seconds: float = Field(
        default=15.0, gt=0, le=25, description="How long an order without a crawl delay may wait for a fetcher."
    )
    dispatch_lead_seconds: float = Field(
        default=0.4, gt=0, le=5, description="How far ahead of its slot an order is sent."
    )
    dispatch_tick_seconds: float = Field(
        default=0.05, gt=0, le=5, description="Longest pause between two rounds of permits."
    )
    dispatch_share: float = Field(
        default=0.2, gt=0, le=1, description="Share of the time that rounds of permits may take while there is work."
    )
    dispatch_per_domain: int = Field(default=64, ge=1, description="Most permits for one domain in one round.")
    dispatch_domains: int = Field(default=200, ge=1, description="Most domains served in one round.")
    window_floor: int = Field(
        default=64, ge=1, description="Orders that may be out while no fetcher has been heard of."
    )
    traces_per_second: float = Field(default=20.0, ge=0, description="Tasks whose way is logged by every service.")
    retention_attempts_days: int = Field(
        default=180, ge=1, le=36500, description="Days that the history of fetches and parses is kept, by whole months."
    )
    retention_audit_days: int = Field(
        default=180, ge=1, le=36500, description="Days that changes of status are kept, by whole months."
    )
    retention_runs_days: int = Field(
        default=90,
        ge=1,
        le=36500,
        description="Days that ended runs are kept. What an aborted run had collected goes after a week.",
    )
    run_tick_seconds: float = Field(
        default=0.5, gt=0, le=60, description="Pause between two looks at runs that may be over."
    )
    broker_address: str = Field(
        default="",
        description="host:port of the proxy broker's gRPC server, asked for blocked proxies. Empty: they are not known.",
    )
    discover_tick_seconds: float = Field(
        default=5.0, gt=0, le=3600, description="How often it is looked which domains' sitemaps and archives are due."
    )
    webhook_secret: SecretStr = Field(
        default=SecretStr(""),
        description="Secret that webhooks are signed with, 32 characters or more. Without it there are no webhooks.",
    )

    @field_validator("webhook_secret")
    @classmethod
    def _is_long(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value()) < LEAST_SECRET:
            raise ValueError(f"must have at least {LEAST_SECRET} characters; `openssl rand -hex 32` makes one")
        return value
