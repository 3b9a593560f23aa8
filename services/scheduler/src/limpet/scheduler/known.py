"""What a site is asked with, whether a page has changed. Pure."""

from __future__ import annotations

from limpet.contracts.events.v1.fetch_pb2 import KnownPage
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.scheduler.store.permits import Candidate


def known_page(task: Candidate, *, parser: str) -> KnownPage | None:
    """None where the page has to be fetched: nothing is known of it, or something else is wanted of it than was taken."""
    if task.page_fact is None or task.kind != "page":
        return None
    page = PageFetched.FromString(task.page_fact)
    if not (page.etag or page.last_modified) or not page.body_key:
        return None
    # What another parser, another batch or a crawl that follows links would get from it, nobody has got yet.
    taken = (page.url, page.parser, page.follow, page.batch)
    if taken != (task.url, parser, task.follow, task.batch):
        return None
    return KnownPage(etag=page.etag, last_modified=page.last_modified, body_key=page.body_key)
