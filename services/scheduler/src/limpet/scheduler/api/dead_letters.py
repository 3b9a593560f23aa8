"""Dead letters over REST: list them, look into one, send it again or drop it."""

from __future__ import annotations

from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query

from limpet.kit.openapi import problems
from limpet.kit.rest import Problem, require
from limpet.scheduler.api.answers import Listing
from limpet.scheduler.api.sendings import Letter, OpenedLetter, Replayed
from limpet.scheduler.dead_letters import DeadLetters, why_not_again
from limpet.scheduler.dead_letters import Letter as Found
from limpet.scheduler.decoding import content_of, kind_of, records_of

log = structlog.get_logger()
MAX_ID = (1 << 63) - 1


def make_router(letters: DeadLetters) -> APIRouter:
    router = APIRouter(prefix="/api/admin/dead-letters", tags=["dead letters"])

    @router.get("", response_model=Listing[Letter, int], dependencies=[require("read")])
    async def listing(
        consumer: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_-]{1,255}$")] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=0, lt=MAX_ID)] = 0,
    ) -> dict[str, Any]:
        """Messages that no consumer could handle, oldest first."""
        items: list[dict[str, Any]] = []
        async for letter in letters.walk(after=after, consumer=consumer):
            items.append(letter_view(letter))
            if len(items) == limit:
                return {"items": items, "next": letter.letter_id}
        return {"items": items, "next": None}

    @router.get("/{letter_id}", response_model=OpenedLetter, dependencies=[require("read")])
    async def one(letter_id: int) -> dict[str, Any]:
        """What it says: up to 100 records, each as a `message`, or as the `hex` of bytes that are none."""
        letter = await found(letter_id)
        kind = kind_of(letter.subject)
        return {
            **letter_view(letter),
            "headers": letter.headers,
            "kind": kind.DESCRIPTOR.name if kind is not None else None,
            "content": content_of(letter.subject, letter.data),
        }

    @router.post(
        "/{letter_id}/replay", response_model=Replayed, responses=problems(409), dependencies=[require("operate")]
    )
    async def replay(letter_id: int) -> dict[str, Any]:
        """Publish it again on its own subject. Every consumer of that subject gets it, not only the one that failed."""
        letter = await found(letter_id)
        if reason := why_not_again(letter.subject):
            raise Problem(409, "Cannot be replayed", reason, errors=[{"field": "subject", "message": reason}])
        if not await letters.replay(letter):
            raise gone(letter_id)
        return {"id": letter_id, "subject": letter.subject}

    @router.delete("/{letter_id}", status_code=204, dependencies=[require("admin")])
    async def drop(letter_id: int) -> None:
        letter = await found(letter_id)
        if not await letters.drop(letter_id):
            raise gone(letter_id)
        log.info("dead_letter_dropped", letter_id=letter_id, subject=letter.subject, consumer=letter.consumer)

    async def found(letter_id: int) -> Found:
        letter = await letters.get(letter_id) if 0 < letter_id <= MAX_ID else None
        if letter is None:
            raise gone(letter_id)
        return letter

    return router


def letter_view(letter: Found) -> dict[str, Any]:
    records = records_of(letter.subject, letter.data)
    return {
        "id": letter.letter_id,
        "subject": letter.subject,
        "consumer": letter.consumer,
        "error": letter.error,
        "buried_at": letter.buried_at,
        "size_bytes": len(letter.data),
        "records": len(records) if records is not None else None,
    }


def gone(letter_id: int) -> Problem:
    return Problem(
        404, "Not found", f"no dead letter {letter_id}", errors=[{"field": "letter_id", "message": "not known"}]
    )
