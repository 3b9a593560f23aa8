"""What the parser can be told."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from limpet.kit.settings import RestCommon
from limpet.parser.workers.limits import Limits


class Settings(RestCommon):
    ops_port: int = Field(default=9103, ge=0, le=65535, description="Port of /livez, /readyz and /metrics.")
    http_port: int = Field(default=8082, ge=0, le=65535, description="Port of the REST API.")
    page_store: str = Field(
        description="Where page bodies are kept: file:///folder, s3://bucket/prefix, gs:// or az://."
    )
    parse_slots: int = Field(default=4, ge=1, le=64, description="Messages (of up to 100 pages) in hand at once.")
    recipes_dir: Path | None = Field(
        default=None, description="Folder of recipes (*.yaml): sites' own parsers, loaded again when they change."
    )
    parse_processes: int = Field(
        default=0, ge=0, le=256, description="Processes that read pages. 0: one for each CPU that this process may use."
    )
    parse_spare_processes: int = Field(
        default=4, ge=1, le=256, description="More of them while some are slow with a page, so that others do not wait."
    )
    parse_wall_seconds: float = Field(
        default=20.0, ge=0.5, le=250, description="Reading a page that takes longer is given up."
    )
    parse_cpu_seconds: float = Field(
        default=5.0, ge=0.5, le=250, description="CPU time after which reading a page is given up."
    )
    parse_memory_mb: int = Field(
        default=512, ge=64, le=65_536, description="Memory that reading a page may take, for each process."
    )
    retention_history_days: int = Field(
        default=365, ge=0, description="How long former versions and gone products are kept. 0 means for ever."
    )
    retention_quality_days: int = Field(default=60, ge=7, description="How long fill rates by the hour are kept.")

    @property
    def processes(self) -> int:
        mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.parse_processes or mine

    @property
    def limits(self) -> Limits:
        return Limits(
            wall_seconds=self.parse_wall_seconds, cpu_seconds=self.parse_cpu_seconds, memory_mb=self.parse_memory_mb
        )
