"""The platform's REST API on one page: `/openapi.json` gathered from every service, `/docs` to read it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import aiohttp
import orjson
import structlog
from fastapi import FastAPI
from starlette.responses import HTMLResponse, Response

from limpet.health.description import Document, merge
from limpet.health.routes import Upstream

log = structlog.get_logger()

TIMEOUT: Final = aiohttp.ClientTimeout(total=3.0)
MAX_DOCUMENT: Final = 4 << 20
PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'",
    "X-Content-Type-Options": "nosniff",
}


def add_description(app: FastAPI, *, session: aiohttp.ClientSession, addresses: Mapping[Upstream, str]) -> None:
    """Nothing here needs a key: it describes the doors and opens none."""
    own = app.openapi()
    # FastAPI's own document would describe this service alone.
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", "") != "/openapi.json"]
    files = resources.files("limpet.health") / "pages"
    page, script = (files / "docs.html").read_text(), (files / "docs.js").read_text()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        found = await asyncio.gather(*(_fetch(session, address) for address in addresses.values()))
        answers = dict(zip(addresses, found, strict=True))
        missing = [name for name, document in answers.items() if document is None]
        if missing:
            log.warning("description_incomplete", missing=missing)
        merged = merge(own, {name: doc for name, doc in answers.items() if doc is not None}, missing=missing)
        return Response(orjson.dumps(merged), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    @app.get("/docs.js", include_in_schema=False)
    async def docs_script() -> Response:
        return Response(script, media_type="text/javascript", headers={"X-Content-Type-Options": "nosniff"})


async def _fetch(session: aiohttp.ClientSession, address: str) -> Document | None:
    try:
        async with session.get(f"{address}/openapi.json", timeout=TIMEOUT) as answer:
            if answer.status != 200:
                return None
            document: Any = orjson.loads(await answer.content.read(MAX_DOCUMENT))
    except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError) as error:
        log.info("description_unavailable", address=address, error=repr(error))
        return None
    return document if isinstance(document, dict) else None
