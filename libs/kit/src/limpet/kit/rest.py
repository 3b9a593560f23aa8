"""REST edges: problem+json for every error, API keys with roles, a cap on bodies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from limpet.kit import tracing
from limpet.kit.errors import LimpetError, Retryable
from limpet.kit.keys import Keys, allows
from limpet.kit.openapi import METHODS, PROBLEM_JSON, describe
from limpet.kit.ops import serve_asgi
from limpet.kit.pg import LOST

log = structlog.get_logger()
MAX_BODY = 16 << 20
# Only says in the description that a key is needed; `require` looks at it.
SCHEME: Final = HTTPBearer(scheme_name="key", auto_error=False)


class Problem(LimpetError):
    """An error for the caller, as RFC 9457 has it."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        *,
        errors: Sequence[dict[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.status, self.title, self.detail, self.errors = status, title, detail, list(errors)
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "errors": self.errors,
        }
        headers = {**self.headers, **({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})}
        return JSONResponse(body, status_code=self.status, media_type=PROBLEM_JSON, headers=headers)


def field_problem(field: str, message: str, *, status: int = 422) -> Problem:
    return Problem(status, "Invalid request", f"{field}: {message}", errors=[{"field": field, "message": message}])


def bearer(request: Request) -> str:
    """The key that the caller sent, known here or not. Empty for none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def require(role: str) -> Any:
    """A dependency: the caller's key has at least this role."""

    async def check(request: Request, _: Annotated[Any, Depends(SCHEME)]) -> str:
        key = bearer(request)
        if not key:
            raise Problem(
                401,
                "Unauthorized",
                "send `Authorization: Bearer <key>`",
                errors=[{"field": "Authorization", "message": "missing"}],
            )
        keys: Keys = request.app.state.keys
        held = keys.role_of(key)
        if held is None:
            raise Problem(
                401,
                "Unauthorized",
                "this key is not known here",
                errors=[{"field": "Authorization", "message": "unknown key"}],
            )
        if not allows(held, role):
            raise Problem(
                403,
                "Forbidden",
                f"this needs the role {role}; the key has {held}",
                errors=[{"field": "Authorization", "message": f"role {role} needed"}],
            )
        return held

    return Depends(check)


class BodyCap:
    """ASGI: refuse a body over the cap, declared or not, before anybody parses it."""

    def __init__(self, app: Any, *, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        too_large = Problem(
            413, "Body too large", f"at most {self._limit} bytes", errors=[{"field": "body", "message": "too large"}]
        )
        if not declared.isdigit() or int(declared) > self._limit:
            await too_large.response()(scope, receive, send)
            return
        seen = 0
        answered = False

        async def counted() -> Any:
            """Past the cap the application meets a caller who has hung up: whatever it says then, ours is said."""
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            return message if seen <= self._limit else {"type": "http.disconnect"}

        async def said(message: Any) -> None:
            nonlocal answered
            if seen <= self._limit or answered:
                answered = True
                await send(message)

        try:
            await self._app(scope, counted, said)
        except ClientDisconnect:
            if seen <= self._limit:
                raise
        if seen > self._limit and not answered:
            await too_large.response()(scope, receive, send)


class Traced:
    """ASGI: a request runs inside the trace that it names."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = scope.get("headers", ())
        traceparent = next((value for name, value in headers if name == tracing.HEADER.encode()), b"")
        with tracing.use(traceparent.decode("latin-1")):
            await self._app(scope, receive, send)


def make_app(title: str, keys: Keys, *, version: str = "0.1.0", max_body: int = MAX_BODY) -> FastAPI:
    """A FastAPI application whose every error is problem+json."""
    app = FastAPI(title=title, version=version, docs_url=None, redoc_url=None)
    app.state.keys = keys
    app.openapi = partial(describe, app)  # type: ignore[method-assign]
    app.add_middleware(BodyCap, limit=max_body)
    app.add_middleware(Traced)

    @app.exception_handler(Problem)
    async def _(_request: Request, error: Problem) -> JSONResponse:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def _(_request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [{"field": _field(item), "message": item["msg"]} for item in error.errors()]
        detail = "; ".join(f"{item['field']}: {item['message']}" for item in errors)
        return Problem(422, "Invalid request", detail, errors=errors).response()

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> JSONResponse:
        headers = {"Allow": _allowed(request)} if error.status_code == 405 else error.headers
        return Problem(error.status_code, str(error.detail), headers=headers).response()

    @app.exception_handler(Exception)
    async def _(_request: Request, _error: Exception) -> JSONResponse:
        """The server logs the error itself; the caller is told that it is ours."""
        return Problem(500, "Internal error", "this is a fault of the server; its log says more").response()

    @app.exception_handler(Retryable)
    async def _(_request: Request, error: Retryable) -> JSONResponse:
        return Problem(503, "Not available now", str(error)).response()

    async def lost(_request: Request, error: Exception) -> JSONResponse:
        log.warning("database_away", error=repr(error))
        return Problem(503, "Not available now", "the database is away; try again in a moment").response()

    for kind in LOST:
        app.add_exception_handler(kind, lost)

    @app.middleware("http")
    async def _(request: Request, call_next: Callable[[Request], Awaitable[Any]]) -> Any:
        response = await call_next(request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return app


def _allowed(request: Request) -> str:
    """Every method of the path: the router knows only those of the route that it looked at first."""
    scopes = {method.upper(): {**request.scope, "method": method.upper()} for method in METHODS}
    routes = request.app.routes
    return ", ".join(
        name for name, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in routes)
    )


def _field(item: dict[str, Any]) -> str:
    """Where in the request: the place without its source. A body that is no JSON has no places in it."""
    source, *place = item["loc"]
    return str(source) if not place or item["type"] == "json_invalid" else ".".join(map(str, place))


async def serve_rest(app: FastAPI, *, host: str, port: int) -> None:
    """A part of the process."""
    await serve_asgi(app, host=host, port=port)
