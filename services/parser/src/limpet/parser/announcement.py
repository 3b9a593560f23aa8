"""What is told of a page that was read, encoded once, in the process that read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import Link, LinksDiscovered, PageParsed
from limpet.kit.clock import seconds_to_stamp
from limpet.parser.links import split
from limpet.parser.reading import Reading


@dataclass(frozen=True, slots=True)
class Announcement:
    # A PageParsed, and a LinksDiscovered for each part of its links that does not fit into it.
    parsed: bytes
    links: list[bytes] = field(default_factory=list)


def announcement(page: PageFetched, reading: Reading, *, started_at: float, seconds: float) -> Announcement:
    embedded, *rest = split(reading.links)
    parsed = PageParsed(
        page=page,
        item_count=len(reading.items),
        page_type=reading.page_type,
        links=embedded,
        link_parts=len(rest),
        started_time=seconds_to_stamp(started_at),
        duration_ms=int(seconds * 1000),
        parser_version=reading.parser_version,
        canonical_url=reading.canonical_url,
        fingerprint=reading.text.fingerprint,
        simhash=reading.text.simhash,
        says_empty=reading.text.says_empty,
    )
    parts = [_part(page, number, links).SerializeToString() for number, links in enumerate(rest, start=1)]
    return Announcement(parsed.SerializeToString(), parts)


def _part(page: PageFetched, number: int, links: Sequence[Link]) -> LinksDiscovered:
    return LinksDiscovered(
        task_id=page.task_id, attempt=page.attempt, part=number, links=links, traceparent=page.traceparent
    )
