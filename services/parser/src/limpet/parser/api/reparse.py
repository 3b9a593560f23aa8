"""`/api/admin/reparse`: stored pages read again, without one request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter, Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from limpet.kit.openapi import problems
from limpet.kit.pg import Conn, Pool
from limpet.kit.rest import Problem, field_problem, require
from limpet.parser.api.queries import BIGINT, Moment
from limpet.parser.store.reparse_jobs import Job, Wanted, add_job, cancel_job, list_jobs, read_job

NO_NUL: Final = r"^[^\x00]*$"
JobId = Annotated[int, Path(ge=1, le=BIGINT)]
State = Literal["running", "completed", "cancelled"]


class ReparseIn(BaseModel):
    """Which pages: at least one of the five."""

    model_config = ConfigDict(extra="forbid")

    task_id: int | None = Field(default=None, ge=1, le=BIGINT)
    domain: str | None = Field(default=None, min_length=1, max_length=255, pattern=NO_NUL)
    batch: str | None = Field(default=None, min_length=1, max_length=255, pattern=NO_NUL)
    from_: Moment | None = Field(default=None, alias="from", description="Fetched at or after this time.")
    to: Moment | None = Field(default=None, description="Fetched before this time.")
    parser: str | None = Field(default=None, min_length=1, max_length=100, pattern=NO_NUL)
    dry_run: bool = Field(default=False, description="Count what would differ, and write nothing.")

    @model_validator(mode="after")
    def _says_which(self) -> ReparseIn:
        if all(value is None for value in (self.task_id, self.domain, self.batch, self.from_, self.to)):
            raise ValueError("say which pages: task_id, domain, batch, from or to")
        return self


class Sample(BaseModel):
    task_id: int
    url: str
    before: Any
    after: Any


class FieldDifference(BaseModel):
    added: int = Field(description="Items that have the field now and had not.")
    removed: int
    changed: int
    samples: list[Sample]


class DifferencesOut(BaseModel):
    items_added: int = 0
    items_removed: int = 0
    fields: dict[str, FieldDifference] = Field(default_factory=dict)


class ReparseJob(BaseModel):
    job_id: int
    state: State
    task_id: int | None
    domain: str | None
    batch: str | None
    scraped_from: datetime | None
    scraped_to: datetime | None
    parser: str = Field(description="Empty: each page's own.")
    dry_run: bool
    created_by: str
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    total: int = Field(description="Pages there were when the job was made.")
    read_count: int
    written_count: int
    changed_count: int = Field(description="Pages whose items differ from those that were kept.")
    same_count: int = Field(description="Not written: they were read by this version of this parser before.")
    gone_count: int = Field(description="The page store has let go of their bodies.")
    failed_count: int
    outdated_count: int = Field(description="Not written: fetched again meanwhile.")
    differences: DifferencesOut


class ReparseJobs(BaseModel):
    items: list[ReparseJob]
    next: int | None


class JobsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    state: State | None = None
    limit: int = Field(default=100, ge=1, le=1_000)
    after: int = Field(default=BIGINT, ge=1, le=BIGINT, description="The `next` of the page before.")


def reparse_router(pool: Pool, *, knows: Callable[[str], bool]) -> APIRouter:
    router = APIRouter(prefix="/api/admin/reparse", tags=["reparse"])

    @router.post("", status_code=202, response_model=ReparseJob)
    async def start(
        body: ReparseIn,
        role: Annotated[str, require("operate")],
        idempotency_key: Annotated[str | None, Header(max_length=200, min_length=1, pattern=r"^[\x21-\x7e]+$")] = None,
    ) -> dict[str, Any]:
        if body.parser is not None and not knows(body.parser):
            raise field_problem("parser", f"there is no parser named {body.parser!r}")
        wanted = Wanted(body.task_id, body.domain, body.batch, body.from_, body.to)
        async with pool.acquire() as conn:
            job_id = await add_job(
                conn,
                wanted,
                parser=body.parser or "",
                dry_run=body.dry_run,
                created_by=role,
                idempotency_key=idempotency_key,
            )
            return shown(await _known(conn, job_id))

    @router.get("", response_model=ReparseJobs, dependencies=[require("read")])
    async def list_all(query: Annotated[JobsQuery, Query()]) -> dict[str, Any]:
        """Newest first."""
        async with pool.acquire() as conn:
            jobs = await list_jobs(conn, state=query.state, before=query.after, limit=query.limit)
        following = jobs[-1].job_id if len(jobs) == query.limit else None
        return {"items": [shown(job) for job in jobs], "next": following}

    @router.get("/{job_id}", response_model=ReparseJob, dependencies=[require("read")], responses=problems(404))
    async def read_one(job_id: JobId) -> dict[str, Any]:
        async with pool.acquire() as conn:
            return shown(await _known(conn, job_id))

    @router.post(
        "/{job_id}/cancel", response_model=ReparseJob, dependencies=[require("operate")], responses=problems(404, 409)
    )
    async def cancel(job_id: JobId) -> dict[str, Any]:
        """What it has written stays written."""
        async with pool.acquire() as conn:
            await cancel_job(conn, job_id)
            job = await _known(conn, job_id)
        if job.state == "completed":
            raise Problem(409, "Completed", f"job {job_id} had already completed")
        return shown(job)

    return router


async def _known(conn: Conn, job_id: int) -> Job:
    job = await read_job(conn, job_id)
    if job is None:
        raise Problem(404, "Unknown job", f"there is no job {job_id}")
    return job


def shown(job: Job) -> dict[str, Any]:
    return {**job._asdict(), "differences": orjson.loads(job.differences)}
