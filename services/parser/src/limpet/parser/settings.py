"""What the parser can be told."""

from __future__ import annotations

from pydantic import Field

from limpet.kit.settings import RestCommon


class Settings(RestCommon):
    ops_port: int = Field(default=9103, ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    http_port: int = Field(default=8082, ge=0, le=65535, description="Port of the REST API.")
    page_store: str = Field(
        description="Where page bodies are kept: file:///folder, s3://bucket/prefix, gs:// or az://."
    )
    parse_slots: int = Field(default=4, ge=1, le=64, description="Messages (of up to 100 pages) in hand at once.")
    retention_history_days: int = Field(
        default=365, ge=0, description="How long former versions and gone products are kept. 0 means for ever."
    )
    retention_quality_days: int = Field(default=60, ge=7, description="How long fill rates by the hour are kept.")
