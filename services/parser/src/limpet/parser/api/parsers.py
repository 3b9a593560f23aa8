"""Which parsers there are, over REST: those that are installed and those of the recipes' folder."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from limpet.kit.rest import require
from limpet.parser.parsers import Parser
from limpet.parser.parsers.registry import installed
from limpet.parser.recipes.folder import Listed, RecipeFolder


class ParserShape(BaseModel):
    name: str | None = Field(description="Null for a recipe that was never right.")
    version: str | None
    page_type: str | None
    source: Literal["installed", "recipe"]
    content_types: list[str] = Field(description="What it reads besides HTML.")
    state: Literal["ready", "outdated", "refused"] = Field(
        description="outdated: the file has a newer version that is refused; refused: no version of it was right."
    )
    file: str | None = None
    error: str | None = Field(default=None, description="Why the file's newest version is not in use.")
    loaded_at: datetime | None = None


class ParserPage(BaseModel):
    items: list[ParserShape]
    next: None = None


def parsers_router(recipes: RecipeFolder) -> APIRouter:
    router = APIRouter(tags=["parsers"])

    @router.get("/api/admin/parsers", dependencies=[require("read")])
    async def list_parsers() -> ParserPage:
        ours = [_installed(parser) for parser in installed().values()]
        return ParserPage(items=[*ours, *(_recipe(one) for _, one in sorted(recipes.listed.items()))])

    return router


def _installed(parser: Parser) -> ParserShape:
    return ParserShape(
        name=parser.name,
        version=parser.version,
        page_type=parser.page_type,
        source="installed",
        content_types=sorted(parser.content_types),
        state="ready",
    )


def _recipe(listed: Listed) -> ParserShape:
    parser = listed.parser
    return ParserShape(
        name=parser.name if parser else None,
        version=parser.version if parser else None,
        page_type=parser.page_type if parser else None,
        source="recipe",
        content_types=sorted(parser.content_types) if parser else [],
        state="ready" if not listed.error else "outdated" if parser else "refused",
        file=listed.file,
        error=listed.error or None,
        loaded_at=datetime.fromtimestamp(listed.loaded_at, UTC) if listed.loaded_at else None,
    )
