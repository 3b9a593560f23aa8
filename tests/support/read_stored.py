"""Stored pages read in the process of the test, where the versions of parsers can be made up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.blobs import Blobs
from limpet.kit.errors import Permanent
from limpet.parser.reading import Reading, Unread, read_page

YIELD_EVERY: Final = 4


@dataclass(frozen=True)
class ReadStored:
    bodies: Blobs

    async def __call__(self, pages: Sequence[PageFetched]) -> list[Reading | Unread]:
        """In the order of the pages. Raises only where the page store is away."""
        found: list[Reading | Unread] = []
        for page, body in zip(pages, await self.bodies.get_many([page.body_key for page in pages]), strict=True):
            if isinstance(body, Permanent):
                found.append(Unread(f"{type(body).__name__}: {body}"[:500]))
            else:
                found.append(read_page(page, body))
            if len(found) % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return found
