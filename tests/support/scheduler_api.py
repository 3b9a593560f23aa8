"""The scheduler's REST API on a real database and bus, asked without a port in between."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from limpet.kit.bus import Bus
from limpet.kit.keys import ROLES, Keys
from limpet.kit.pg import Pool
from limpet.scheduler.api.app import make_api
from limpet.scheduler.signature import Signer


@asynccontextmanager
async def scheduler_api(
    pool: Pool, bus: Bus, *, signer: Signer = Signer(b"m" * 32)
) -> AsyncIterator[httpx.AsyncClient]:
    """Asks as admin; each role is its own key."""
    keys = Keys(tuple((role, hashlib.sha256(role.encode()).hexdigest()) for role in ROLES))
    app = make_api(pool, bus, keys, submitted=lambda: None, changed=lambda: None, signer=signer)
    # A fault of the server is an answer here, as it is on a port.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://scheduler", headers=as_role("admin")) as client:
        yield client


def as_role(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {role}"}


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The body, after a look at what every problem has."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    return body


def fields(response: httpx.Response, status: int) -> list[str]:
    return [error["field"] for error in problem(response, status)["errors"]]
