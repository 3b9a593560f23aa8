"""What the broker is told by its environment."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, SecretStr, field_validator

from limpet.kit.settings import RestCommon
from limpet.proxy_broker.vault import Vault


class Settings(RestCommon):
    """Thresholds are those of the decisions: pair 5, proxy 10, cool-downs of 30 and 60 minutes."""

    ops_port: int = Field(default=9104, ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    http_port: int = Field(default=8084, ge=0, le=65535, description="Port of the REST API.")
    grpc_host: str = Field(default="127.0.0.1", description="Address that gRPC listens on.")
    grpc_port: int = Field(default=9204, ge=1, le=65535, description="Port of gRPC.")
    secret_keys: SecretStr = Field(
        description="Keys that seal proxy passwords: 32 bytes in url-safe base64, newest first, comma-separated."
    )
    lease_ttl: timedelta = Field(default=timedelta(seconds=60), description="Life of a lease that names no other.")
    lease_ttl_max: timedelta = Field(default=timedelta(minutes=10), description="Longest life of a lease.")
    expire_every: timedelta = Field(default=timedelta(seconds=1), description="How often dead leases are collected.")
    pair_failures: int = Field(default=5, ge=1, description="Failures in a row that disable a proxy for one domain.")
    pair_cooldown: timedelta = Field(default=timedelta(minutes=30), description="First cool-down of such a pair.")
    proxy_failures: int = Field(default=10, ge=1, description="Failures in a row that disable a proxy.")
    proxy_cooldown: timedelta = Field(default=timedelta(minutes=60), description="First cool-down of such a proxy.")
    cooldown_max: timedelta = Field(default=timedelta(days=1), description="Longest cool-down after relapses.")
    block_cooldown: timedelta = Field(
        default=timedelta(minutes=30), description="How long a datacenter proxy stays away from a site that refused it."
    )
    wave_proxies: int = Field(default=3, ge=1, description="Distinct proxies refused by a site that trip its domain.")
    wave_window: timedelta = Field(default=timedelta(minutes=5), description="Within which time they must be refused.")
    domain_hold: timedelta = Field(
        default=timedelta(minutes=5), description="First hold of a domain that tripped and has no dearer tier."
    )
    tier_probe_after: timedelta = Field(
        default=timedelta(hours=1), description="When a domain that climbed a tier first tries the cheaper one again."
    )
    probe_target: str = Field(
        default="",
        pattern=r"^([^\s:/@]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$|^$",
        description="host:port that probes reach through a proxy. Empty: they only dial the proxy and log in.",
    )
    probe_timeout: timedelta = Field(default=timedelta(seconds=5), description="Time for one probe of a proxy.")
    rollup_every: timedelta = Field(default=timedelta(seconds=5), description="How often uses are added to their hour.")
    usage_retention: timedelta = Field(
        default=timedelta(days=400), ge=timedelta(days=62), description="How long the hours of use are kept."
    )
    alerts_every: timedelta = Field(default=timedelta(seconds=15), description="How often the alert gauges follow.")
    alert_least_proxies: int = Field(default=3, ge=1, description="Fewer active proxies of a domain are an alert.")
    alert_failure_share: float = Field(
        default=0.1, ge=0, lt=1, description="A larger share of failures in a domain's last hour is an alert."
    )
    alert_least_uses: int = Field(default=10, ge=1, description="Uses in that hour from which on the share counts.")

    @field_validator("secret_keys")
    @classmethod
    def _keys_open(cls, keys: SecretStr) -> SecretStr:
        try:
            Vault(keys.get_secret_value())
        except ValueError:
            # The message is printed: it must not hold the value.
            raise ValueError("not a comma-separated list of keys of 32 bytes in url-safe base64") from None
        return keys
