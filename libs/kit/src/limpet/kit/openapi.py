"""What a REST edge says of itself: every problem that an operation can answer, as problem+json."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

PROBLEM_JSON: Final = "application/problem+json"
METHODS: Final = ("get", "put", "post", "delete", "patch")
_TEXT: Final = {"type": "string"}
PROBLEM: Final = {
    "title": "Problem",
    "description": "An error for the caller, as RFC 9457 has it. `errors` names each field that is at fault.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": _TEXT, "message": _TEXT},
            },
        },
    },
}
RETRY_AFTER: Final = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
# Replaced by ours: FastAPI declares its own form of a 422.
_NOT_OURS: Final = ("HTTPValidationError", "ValidationError")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `responses=` of a route: problems that no rule below finds."""
    return {status: problem(status) for status in statuses}


def problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: {"schema": schema}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The application's OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name in _NOT_OURS:
            schemas.pop(name, None)
        schemas["Problem"] = PROBLEM
        for path, methods in document.get("paths", {}).items():
            for method in METHODS:
                if method in methods:
                    _add_problems(path, methods[method])
        app.openapi_schema = document
    return app.openapi_schema


def _add_problems(path: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    validated = responses.get("422", {}).get("content", {})
    if PROBLEM_JSON not in validated:
        responses.pop("422", None)
    for status in _statuses(path, operation):
        responses.setdefault(str(status), problem(status))


def _statuses(path: str, operation: dict[str, Any]) -> Iterator[int]:
    """What the edge itself may answer, by what the operation takes."""
    if "security" in operation:
        yield from (401, 403)
    if "{" in path:
        yield 404
    if "requestBody" in operation:
        # A body that is not even text.
        yield 400
    if "requestBody" in operation or operation.get("parameters"):
        yield 422
    yield from (413, 503)
