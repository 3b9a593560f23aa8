"""POSTs that take an `Idempotency-Key`: the same request again gets the first answer and does nothing.

A router adopts it with `APIRouter(…, route_class=idempotent(pool))`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Coroutine
from typing import Any, Final
from uuid import UUID

import asyncpg
import structlog
from fastapi import Request, Response
from fastapi.routing import APIRoute

from limpet.kit.keys import Keys
from limpet.kit.openapi import RETRY_AFTER, problem
from limpet.kit.pg import LOST, Pool
from limpet.kit.rest import Problem, bearer, field_problem
from limpet.scheduler.store.idempotency import Key, claim_key, free_key, get_key, keep_answer

log = structlog.get_logger()
HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotent-Replayed"
PRINTABLE: Final = re.compile(r"[\x20-\x7e]{1,255}")
PARAMETER: Final = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": "The same request with the same key gets the first answer for 24 hours and does nothing.",
}
MARK: Final = {"description": "Only on a first answer that is given again.", "schema": {"const": "true"}}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def idempotent(pool: Pool) -> type[APIRoute]:
    """A class of routes whose POSTs honour the header. Requests without it, and other methods, are as ever."""

    class Idempotent(APIRoute):
        def __init__(self, *args: Any, **options: Any) -> None:
            if "POST" in (options.get("methods") or ()):
                extra = options.get("openapi_extra") or {}
                options["openapi_extra"] = {**extra, "parameters": [*extra.get("parameters", ()), PARAMETER]}
                options["responses"] = _described(options.get("responses") or {}, options.get("status_code") or 200)
            super().__init__(*args, **options)

        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def once(request: Request) -> Response:
                keys: Keys = request.app.state.keys
                # Nothing is kept for strangers: the route itself turns them away.
                if request.method != "POST" or HEADER not in request.headers or not keys.role_of(bearer(request)):
                    return await handle(request)
                caller = hashlib.sha256(bearer(request).encode()).digest()
                return await _once(pool, Key(caller, self.path, _given(request)), request, handle)

            return once

    return Idempotent


def _described(responses: dict[int | str, dict[str, Any]], good: int) -> dict[int | str, dict[str, Any]]:
    """A bad key, a key that is in use, and the mark of a first answer that is given again."""
    described = {**responses, 400: problem(400), 409: {**problem(409), "headers": RETRY_AFTER}}
    for status in {good, *(status for status in responses if str(status).startswith("2"))}:
        described[status] = {**described.get(status, {}), "headers": {REPLAYED: MARK}}
    return described


def _given(request: Request) -> str:
    given = request.headers.getlist(HEADER)
    if len(given) > 1 or not PRINTABLE.fullmatch(given[0]):
        raise field_problem(HEADER, "must be one key of 1 to 255 printable ASCII characters", status=400)
    return given[0]


async def _once(pool: Pool, key: Key, request: Request, handle: Handler) -> Response:
    body_hash = await _hash(request)
    async with pool.acquire() as conn:
        claim = await claim_key(conn, key, body_hash=body_hash)
    if claim is None:
        return await _again(pool, key, body_hash)
    response: Response | None = None
    try:
        response = await handle(request)
    finally:
        await _end(pool, key, claim, response)
    return response


async def _hash(request: Request) -> bytes:
    """All that makes the request what it is. Paths are in it: a route may have parameters."""
    digest = hashlib.sha256()
    for part in (request.url.path.encode(), request.url.query.encode()):
        digest.update(len(part).to_bytes(8) + part)
    digest.update(await request.body())
    return digest.digest()


async def _again(pool: Pool, key: Key, body_hash: bytes) -> Response:
    async with pool.acquire() as conn:
        held = await get_key(conn, key)
    if held is not None and held.body_hash != body_hash:
        raise field_problem(HEADER, "was used for another request; a new request needs a new key")
    if held is None or held.status is None:
        message = "the first request with this key still runs"
        raise Problem(
            409, "Still running", message, errors=[{"field": HEADER, "message": message}], headers={"Retry-After": "1"}
        )
    return Response(held.answer, held.status, {REPLAYED: "true"}, media_type=held.content_type or None)


async def _end(pool: Pool, key: Key, claim: UUID, response: Response | None) -> None:
    """Keep a good answer; an error frees the key. When the database is away the claim goes stale by itself."""
    try:
        async with pool.acquire() as conn:
            if response is None or response.status_code >= 400:
                await free_key(conn, key, claim=claim)
            else:
                await keep_answer(
                    conn,
                    key,
                    claim=claim,
                    status=response.status_code,
                    content_type=response.headers.get("content-type", ""),
                    answer=bytes(response.body),
                )
    except (*LOST, asyncpg.PostgresError) as error:
        log.warning("idempotency_key_unsettled", route=key.route, error=repr(error))
