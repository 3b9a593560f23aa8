"""The parser's API, whole."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter

from limpet.kit.pg import Pool
from limpet.parser.api.items import items_router
from limpet.parser.api.products import products_router
from limpet.parser.api.quality import quality_router
from limpet.parser.api.reparse import reparse_router


def routers(pool: Pool, *, knows: Callable[[str], bool]) -> tuple[APIRouter, ...]:
    """`knows` says whether there is a parser of a name."""
    return (items_router(pool), products_router(pool), quality_router(pool), reparse_router(pool, knows=knows))
