"""Which service owns which path: the longest prefix wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Upstream = Literal["scheduler", "parser", "proxy-broker"]

OWNERS: Final[Mapping[str, Upstream]] = {
    "/api/admin/tasks": "scheduler",
    "/api/admin/domains": "scheduler",
    "/api/admin/batches": "scheduler",
    "/api/admin/runs": "scheduler",
    "/api/admin/dead-letters": "scheduler",
    "/api/admin/webhooks": "scheduler",
    "/api/admin/explain": "scheduler",
    "/api/sites": "scheduler",
    "/api/admin/proxies": "proxy-broker",
    "/api/admin/domain-proxies": "proxy-broker",
    "/api/admin/proxy-costs": "proxy-broker",
    "/api/admin/proxy-budgets": "proxy-broker",
    "/api/admin/proxy-alerts": "proxy-broker",
    "/api/products": "parser",
    "/api/items": "parser",
    "/api/targets": "parser",
    "/api/admin/reparse": "parser",
    "/api/admin/quality": "parser",
    "/api/admin/parsers": "parser",
}


def owner_of(path: str) -> Upstream | None:
    """Whole segments only: `/api/items-old` is nobody's. None: the health service answers itself."""
    prefix = path
    while prefix:
        if prefix in OWNERS:
            return OWNERS[prefix]
        prefix = prefix.rpartition("/")[0]
    return None
