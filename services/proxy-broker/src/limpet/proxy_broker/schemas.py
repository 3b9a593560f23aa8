"""What people send to the REST API. Answers are the store's rows, which hold no password."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

# No control characters: these go into headers.
Text = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00-\x1f\x7f]*$")]
Host = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._:-]+$", to_lower=True)]
Country = Annotated[str, StringConstraints(pattern=r"^([A-Za-z]{2})?$", to_upper=True)]
BIGGEST = 2**63 - 1


class Body(BaseModel):
    """A misspelt field is an error, not a default. Errors never repeat what was sent."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class AddProxy(Body):
    """Identity is protocol, host, port and username."""

    protocol: Literal["http", "https", "socks5"] = "http"
    host: Host
    port: int = Field(ge=1, le=65535)
    username: Text = ""
    password: SecretStr | None = Field(default=None, max_length=1024)
    kind: Literal["datacenter", "residential", "mobile"] = "datacenter"
    country_code: Country = ""
    city: Text = ""
    provider: Text = ""
    monthly_cost: Decimal | None = Field(default=None, ge=0, max_digits=10, decimal_places=2)
    max_requests_per_hour: int | None = Field(default=1000, ge=1, le=10_000_000)
    max_concurrent_leases: int = Field(default=10, ge=1, le=100_000)


class AssignProxy(Body):
    """Puts a proxy into a domain's pool; priority 1 comes first."""

    proxy_id: int = Field(ge=1, le=BIGGEST)
    priority: int = Field(default=5, ge=1, le=10)
