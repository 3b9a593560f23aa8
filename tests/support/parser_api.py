"""The parser's REST API on a real database and a real port, and pages to keep in it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson

from limpet.kit.keys import ROLES, Keys
from limpet.kit.pg import Pool
from limpet.kit.rest import make_app, serve_rest
from limpet.parser.api.app import routers
from limpet.parser.recipes.folder import RecipeFolder
from limpet.parser.store.pages import ParsedPage, keep_pages
from tests.support.listening import listening
from tests.support.parts import running
from tests.support.servers import free_port

KEYS = Keys(tuple((role, hashlib.sha256(role.encode()).hexdigest()) for role in ROLES))
T0 = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ParserApi:
    """Asks as admin; each role is its own key."""

    client: httpx.AsyncClient
    pool: Pool
    url: str

    async def ok(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = await self.client.request(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


@asynccontextmanager
async def parser_api(pool: Pool) -> AsyncIterator[ParserApi]:
    app = make_app("Limpet parser", KEYS)
    for router in routers(pool, recipes=RecipeFolder(None)):
        app.include_router(router)
    port = free_port()
    async with running(serve_rest(app, host="127.0.0.1", port=port)):
        await listening(port)
        url = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": "Bearer admin"}, timeout=60) as client:
            yield ParserApi(client, pool, url)


def product(name: str = "Boots", **values: Any) -> dict[str, Any]:
    return {"name": name, "price": "10.00", "currency": "EUR", "availability": "in_stock", **values}


def page(task: int = 1, *items: dict[str, Any], attempt: int = 1, **values: Any) -> ParsedPage:
    given: dict[str, Any] = {
        "domain": "shop.test", "batch": "", "url": f"https://shop.test/p/{task}", "parser": "product",
        "parser_version": "1", "page_type": "product", "title": "", "body_key": "", "content_type": "text/html",
        "charset": "", "scraped_at": T0 + timedelta(hours=attempt), "link_count": 0, **values,
    }  # fmt: skip
    texts = [orjson.dumps(item).decode() for item in items]
    return ParsedPage(task_id=task, attempt=attempt, items=texts, **given)


async def keep(pool: Pool, *pages: ParsedPage) -> set[int]:
    async with pool.acquire() as conn:
        return await keep_pages(conn, pages)
