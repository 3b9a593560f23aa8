"""Runs over REST: begin one, look at it while it runs, abort it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from random import SystemRandom
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response

from limpet.kit.openapi import problems
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import field_problem, require
from limpet.scheduler.again import try_again
from limpet.scheduler.api.answers import Listing
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.run_answers import Collected, Run, StartPage, run_view, start_page_view
from limpet.scheduler.api.run_forms import RunIn, bad_start_page
from limpet.scheduler.api.task_actions import MAX_ID, Operator
from limpet.scheduler.api.tasks import clean
from limpet.scheduler.api.webhooks import take_webhook_url
from limpet.scheduler.runs.commit import abort_run
from limpet.scheduler.runs.start import TakenId, UnknownSite, start_run
from limpet.scheduler.signature import Signer
from limpet.scheduler.store.run_pages import list_start_pages
from limpet.scheduler.store.run_urls import list_urls
from limpet.scheduler.store.runs import get_run, list_runs
from limpet.scheduler.webhook_event import ordered_id

CREATE: Final = {
    200: {"model": Run, "description": "The run of this id, or the one of the site that is live"},
    **problems(409),
}
MAX_NUMBER: Final = (1 << 31) - 1
HASH: Final = 32


def make_router(pool: Pool, *, started: Callable[[], None], ended: Callable[[], None], signer: Signer) -> APIRouter:
    router = APIRouter(prefix="/api/admin/runs", tags=["runs"], route_class=idempotent(pool))

    @router.post("", status_code=201, response_model=Run, responses=CREATE)
    async def create(body: RunIn, response: Response, role: Operator) -> dict[str, Any]:
        """201 for a new run; 200 for the run of this id, and for the one of the site that is live already."""
        take_webhook_url(signer, body.webhook_url)
        check_start_pages(body.start_pages, site=body.site)
        wish = body.wish(body.run_id or ordered_id(datetime.now(UTC), rng=SystemRandom()), created_by=role)
        try:
            result = await try_again(pool, lambda conn: start_run(conn, wish))
        except UnknownSite:
            raise unknown_site(body.site) from None
        except TakenId:
            raise field_problem("run_id", "is that of a run of another site", status=409) from None
        if result.created:
            started()
        response.status_code = 201 if result.created else 200
        return run_view(await found(result.run_id))

    @router.get("", response_model=Listing[Run, int], dependencies=[require("read")])
    async def listing(
        site: str | None = None,
        state: Literal["collecting", "committed", "aborted"] | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=1, le=MAX_ID)] = MAX_ID,
    ) -> dict[str, Any]:
        """The newest first."""
        async with pool.acquire() as conn:
            rows = await list_runs(conn, before=after, limit=limit, site=clean(site), state=state)
        return {"items": [run_view(row) for row in rows], "next": rows[-1]["run_no"] if len(rows) == limit else None}

    @router.get("/{run_id}", response_model=Run, dependencies=[require("read")])
    async def one(run_id: UUID) -> dict[str, Any]:
        return run_view(await found(run_id))

    @router.get("/{run_id}/start-pages", response_model=Listing[StartPage, int], dependencies=[require("read")])
    async def start_pages(
        run_id: UUID,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=0, le=MAX_NUMBER)] = 0,
    ) -> dict[str, Any]:
        """How far each has got, and what went wrong on the way: the last failures, the oldest first."""
        await found(run_id)
        async with pool.acquire() as conn:
            rows = await list_start_pages(conn, run_id, after=after, limit=limit)
        return {
            "items": [start_page_view(row) for row in rows],
            "next": rows[-1]["start_no"] if len(rows) == limit else None,
        }

    @router.get("/{run_id}/urls", response_model=Listing[Collected, str], dependencies=[require("read")])
    async def urls(
        run_id: UUID,
        start_no: Annotated[int | None, Query(ge=1, le=MAX_NUMBER)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[str | None, Query(max_length=100)] = None,
    ) -> dict[str, Any]:
        """What has been collected so far. Of a committed run there is nothing here: its URLs are the tasks of its batch."""
        await found(run_id)
        async with pool.acquire() as conn:
            rows = await list_urls(conn, run_id, after=place_of(after), start_no=start_no, limit=limit)
        last = rows[-1] if len(rows) == limit else None
        return {
            "items": [{"url": row["url"], "start_no": row["start_no"]} for row in rows],
            "next": spell(last["url_hash"], last["start_no"]) if last is not None else None,
        }

    @router.post("/{run_id}/abort", response_model=Run, responses=problems(409))
    async def abort(run_id: UUID, role: Operator) -> dict[str, Any]:
        """Nothing of it is published; what it had collected can be looked at for a while. Again, it changes nothing."""
        await found(run_id)
        before = await try_again(pool, lambda conn: abort_run(conn, run_id, actor=role))
        if before is not None and before["state"] == "committed":
            raise field_problem(
                "state", "is committed: its URLs are tasks of its batch, which can be cancelled", status=409
            )
        ended()
        return run_view(await found(run_id))

    async def found(run_id: UUID) -> Record:
        async with pool.acquire() as conn:
            row = await get_run(conn, run_id)
        if row is None:
            raise field_problem("run_id", "not known", status=404)
        return row

    return router


def check_start_pages(urls: list[str], *, site: str) -> None:
    bad = bad_start_page(urls, site=site)
    if bad is not None:
        raise field_problem(f"start_pages.{bad[0]}", bad[1])


def unknown_site(site: str) -> Exception:
    return field_problem("site", f"the domain {site} is not known; create it with POST /api/admin/domains")


def spell(digest: bytes, start_no: int) -> str:
    return urlsafe_b64encode(digest + start_no.to_bytes(4)).decode()


def place_of(text: str | None) -> tuple[bytes, int]:
    if text is None:
        return b"", 0
    try:
        raw = urlsafe_b64decode(text.encode())
    except ValueError:
        raw = b""
    if len(raw) != HASH + 4:
        raise field_problem("after", "is not the `next` of a page before")
    return raw[:HASH], int.from_bytes(raw[HASH:]) & MAX_NUMBER
