"""The parser's API, whole."""

from __future__ import annotations

from fastapi import APIRouter

from limpet.kit.pg import Pool
from limpet.parser.api.items import items_router
from limpet.parser.api.products import products_router


def routers(pool: Pool) -> tuple[APIRouter, ...]:
    return (items_router(pool), products_router(pool))
