"""S22, S23: sites of every shape are found whole, and none of their traps is followed past its limit."""

from __future__ import annotations

from pathlib import Path

from limpet.cli.local.platform import Platform
from tests.support.door import open_door
from tests.support.shapes import ENV, crawl_all, table
from tests.support.site.shapes import shapes


async def test_s22_s23_all_of_every_shape_is_found_within_its_limit(tmp_path: Path) -> None:
    with Platform(tmp_path / "limpet", env=ENV) as platform:
        async with open_door(platform) as door:
            crawled = await crawl_all(door, shapes())
    assert len(crawled) == len(shapes())
    assert all(one.is_good for one in crawled), "\n" + table(crawled)
