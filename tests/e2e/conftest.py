"""One platform with two schedulers and three fetchers for all end-to-end tests; each test brings its own sites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from limpet.cli.local.platform import Platform
from tests.support.door import Door, open_door

QUICK = {
    "LIMPET_ALLOWED_NETWORKS": "127.0.0.0/8",
    "LIMPET_RETRY_BASE_SECONDS": "0.5",
    "LIMPET_BLOCK_BASE_SECONDS": "0.5",
    "LIMPET_TRACES_PER_SECOND": "100",
}


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with Platform(tmp_path_factory.mktemp("limpet"), schedulers=2, fetchers=3, env=QUICK) as running:
        yield running


@pytest.fixture
async def door(platform: Platform) -> AsyncIterator[Door]:
    async with open_door(platform) as door:
        yield door
