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
