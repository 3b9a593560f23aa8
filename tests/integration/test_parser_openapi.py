"""The parser's API keeps its word: whatever is sent, no 5xx, and every answer is one that its OpenAPI declares."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tests.conftest import PoolFactory
from tests.support.describing import ask_everything
from tests.support.parser_api import keep, page, parser_api, product

CONFIG: Final[dict[str, Any]] = {
    "headers": {"Authorization": "Bearer admin"},
    "continue-on-failure": True,
    "generation": {"max-examples": 20, "deterministic": True, "no-shrink": True, "database": "none"},
    "phases": {"stateful": {"enabled": False}},
    # 422 is also for what no schema can say: a parser that there is not, a time without a zone.
    "checks": {"positive_data_acceptance": {"enabled": False}},
}
OPERATIONS: Final = {
    "GET /api/items",
    "GET /api/products",
    "GET /api/products/{product_id}",
    "GET /api/products/{product_id}/history",
    "GET /api/admin/quality",
    "GET /api/admin/reparse",
    "POST /api/admin/reparse",
    "GET /api/admin/reparse/{job_id}",
    "POST /api/admin/reparse/{job_id}/cancel",
}


async def test_p3_every_answer_to_anything_is_a_declared_one(pool_of: PoolFactory) -> None:
    pool = await pool_of("limpet.parser")
    await keep(pool, *(page(n, product(f"Boots {n}", sku=f"B-{n}")) for n in range(1, 6)))
    await pool.execute(
        "INSERT INTO quality_fields (domain, parser, field, judged_hour, hour) VALUES ('d', 'p', 'x', now(), now())"
    )
    async with parser_api(pool) as api:
        await api.ok("POST", "/api/admin/reparse", 202, json={"domain": "shop.test"})
        good, wrong = await asyncio.to_thread(ask_everything, f"{api.url}/openapi.json", CONFIG)
    assert not wrong, "\n\n".join(wrong)
    # Where everything is refused nothing is looked at.
    assert good >= {"GET /api/items", "GET /api/products", "GET /api/admin/quality", "GET /api/admin/reparse"}


async def test_p3_the_description_has_every_operation_with_its_fields(pool_of: PoolFactory) -> None:
    async with parser_api(await pool_of("limpet.parser")) as api:
        described = await api.ok("GET", "/openapi.json")
    found = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    assert found == OPERATIONS
    fields = described["components"]["schemas"]["Product"]["properties"]
    assert {"price", "gtin", "changed_at", "_metadata"} <= set(fields)
    answer = described["paths"]["/api/products"]["get"]["responses"]["200"]
    assert set(answer["headers"]) == {"X-Data-Freshness", "X-Data-Age-Seconds"}
    assert len(answer["content"]) == 4
