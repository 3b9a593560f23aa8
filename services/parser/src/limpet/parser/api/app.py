"""The parser's API, whole."""

from __future__ import annotations

from fastapi import APIRouter

from limpet.kit.pg import Pool
from limpet.parser.api.items import items_router
from limpet.parser.api.parsers import parsers_router
from limpet.parser.api.products import products_router
from limpet.parser.api.quality import quality_router
from limpet.parser.api.reparse import reparse_router
from limpet.parser.recipes.folder import RecipeFolder


def routers(pool: Pool, *, recipes: RecipeFolder) -> tuple[APIRouter, ...]:
    return (
        items_router(pool),
        products_router(pool),
        parsers_router(recipes),
        quality_router(pool),
        reparse_router(pool, knows=recipes.knows),
    )
