"""An answer that is sent while it is read: its headers come from its first piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fastapi.responses import StreamingResponse

from limpet.parser import freshness
from limpet.parser.api.formats import MEDIA, Format, Row, encoded

STREAM_PAGE: Final = 1_000
Piece = Sequence[Row]


async def streamed(
    pieces: AsyncIterator[Piece], *, form: Format, columns: Mapping[str, type], shape: Callable[[Row], Any], name: str
) -> StreamingResponse:
    """The first piece is read before anything is said: until then an error still has a status of its own."""
    first: Piece = await anext(pieces, ())
    fresh = freshness.headers((row["scraped_at"] for row in first), now=datetime.now(UTC))
    file = {"Content-Disposition": f'attachment; filename="{name}.{form}"'} if form in ("csv", "parquet") else {}
    body = encoded(_again(first, pieces), form=form, columns=columns, shape=shape)
    return StreamingResponse(body, media_type=MEDIA[form], headers={**fresh, **file})


async def _again(first: Piece, rest: AsyncIterator[Piece]) -> AsyncIterator[Piece]:
    yield first
    async for piece in rest:
        yield piece
