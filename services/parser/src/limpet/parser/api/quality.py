"""`GET /api/admin/quality`: how often each field is filled, now, usually and by the hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from limpet.kit.pg import Pool
from limpet.kit.rest import require
from limpet.parser.api.queries import BIGINT
from limpet.parser.store.quality import hours_of, list_fields

NO_NUL: Final = r"^[^\x00]*$"


class QualityQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    domain: str | None = Field(default=None, max_length=255, pattern=NO_NUL)
    parser: str | None = Field(default=None, max_length=100, pattern=NO_NUL)
    field: str | None = Field(default=None, max_length=100, pattern=NO_NUL, description="`*`: pages with any item.")
    dropped: bool | None = Field(default=None, description="Only those that have dropped, or only the others.")
    hours: int = Field(default=24, ge=1, le=24 * 31, description="How far back the hours go.")
    limit: int = Field(default=100, ge=1, le=1_000)
    after: int = Field(default=0, ge=0, le=BIGINT, description="The `next` of the page before.")


class HourOfField(BaseModel):
    hour: datetime
    seen: int
    filled: int


class FieldQuality(BaseModel):
    domain: str
    parser: str
    field: str
    rate: float = Field(description="Share of items with a value, when it was last judged.")
    baseline: float = Field(description="The same by its own past, which counts less the older it is.")
    dropped_at: datetime | None = Field(description="Since when it is filled far less often than it used to be.")
    hours: list[HourOfField]


class QualityPage(BaseModel):
    items: list[FieldQuality]
    next: int | None


def quality_router(pool: Pool) -> APIRouter:
    router = APIRouter(tags=["quality"], dependencies=[require("read")])

    @router.get("/api/admin/quality", response_model=QualityPage)
    async def get_quality(query: Annotated[QualityQuery, Query()]) -> dict[str, Any]:
        async with pool.acquire() as conn:
            states = await list_fields(
                conn,
                domain=query.domain,
                parser=query.parser,
                field=query.field,
                dropped=query.dropped,
                after=query.after,
                limit=query.limit,
            )
            rows = await hours_of(conn, [state.field_id for state in states], within=timedelta(hours=query.hours))
        hours: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in rows:
            told = {"hour": row.hour, "seen": row.seen, "filled": row.filled}
            hours.setdefault((row.domain, row.parser, row.field), []).append(told)
        items = [{**state._asdict(), "hours": hours.get(state[1:4], [])} for state in states]
        return {"items": items, "next": states[-1].field_id if len(states) == query.limit else None}

    return router
