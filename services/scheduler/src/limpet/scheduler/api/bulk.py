"""Many tasks in one request: a JSON body, or JSON lines that are read as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from limpet.kit.rest import field_problem
from limpet.scheduler.api.schemas import MAX_TASKS, BulkIn, BulkTask

LINES: Final = "application/x-ndjson"
_TASK: Final = BulkTask.model_json_schema()
_BATCH: Final = BulkIn.model_json_schema()["properties"]["batch"]
_MANY: Final = {
    "type": "object",
    "required": ["tasks"],
    "properties": {"tasks": {"type": "array", "items": _TASK, "minItems": 1, "maxItems": MAX_TASKS}, "batch": _BATCH},
    "additionalProperties": False,
}
BULK_BODY: Final = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _MANY}, LINES: {"schema": _TASK}}}
}


async def read_bulk(request: Request, batch: str | None = None) -> BulkIn:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != LINES:
        if batch is not None:
            raise field_problem("batch", "belongs into the body, unless that is a stream of JSON lines")
        try:
            return BulkIn.model_validate_json(await request.body())
        except ValidationError as error:
            raise _invalid(error, ("body",)) from None
    tasks: list[BulkTask] = []
    async for line in _lines(request):
        if len(tasks) == MAX_TASKS:
            raise field_problem("tasks", f"are more than {MAX_TASKS}")
        try:
            tasks.append(BulkTask.model_validate_json(line))
        except ValidationError as error:
            raise _invalid(error, ("body", "tasks", len(tasks))) from None
    try:
        return BulkIn.model_validate({"tasks": tasks, "batch": batch})
    except ValidationError as error:
        raise _invalid(error, ("body",)) from None


Bulk = Annotated[BulkIn, Depends(read_bulk)]


async def _lines(request: Request) -> AsyncIterator[bytes]:
    """Empty lines are none."""
    rest = b""
    async for part in request.stream():
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
    if rest.strip():
        yield rest


def _invalid(error: ValidationError, place: Sequence[str | int]) -> RequestValidationError:
    found: list[dict[str, Any]] = [
        {**item, "loc": (*place, *item["loc"])} for item in error.errors(include_context=False)
    ]
    for item in found:
        if len(place) > 1 and item["type"] == "json_invalid":
            # A line that is no JSON has a place, unlike a body that is none.
            item["type"] = "value_error"
    return RequestValidationError(found)
