"""A scheduler's database and its REST API for each test; a file that needs them otherwise has its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from tests.conftest import PoolFactory
from tests.support.scheduler_api import scheduler_api


@pytest.fixture
async def pool(pool_of: PoolFactory) -> Pool:
    return await pool_of("limpet.scheduler")


@pytest.fixture
async def api(pool: Pool, bus: Bus) -> AsyncIterator[httpx.AsyncClient]:
    async with scheduler_api(pool, bus) as client:
        yield client
