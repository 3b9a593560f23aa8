"""List pages of runs come in: their links are collected and their next pages asked for, in the transaction of their facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FetchFailed
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected
from limpet.contracts.events.v1.parse_pb2 import Link, PageParsed, ParseFailed
from limpet.kit.clock import to_datetime
from limpet.kit.pg import Conn
from limpet.scheduler.lifecycle import TERMINAL, Status
from limpet.scheduler.outcome import TaskRow, told
from limpet.scheduler.runs.listing import GONE, StartPage, items_of
from limpet.scheduler.runs.start import ask_for_pages
from limpet.scheduler.store.run_pages import Place, lock_start_pages, places_of, save_start_pages
from limpet.scheduler.store.run_urls import add_urls
from limpet.scheduler.store.runs import LiveRun, share_runs

Found = tuple[UUID, bytes, int, str]


@dataclass
class _Book:
    """What is locked of the runs that some tasks belong to, until the transaction is over."""

    places: Mapping[int, Place]
    runs: Mapping[UUID, LiveRun]
    starts: Mapping[tuple[UUID, int], StartPage]
    found: list[Found]

    def start_of(self, task_id: int) -> StartPage | None:
        """None where the run has ended: what comes now comes too late."""
        place = self.places.get(task_id)
        return self.starts.get(place.start) if place is not None else None

    def open_start_of(self, task_id: int) -> StartPage | None:
        start = self.start_of(task_id)
        return start if start is not None and start.is_open else None

    def items(self, task_id: int, links: Sequence[Link]) -> list[Found]:
        """The links of a page that are wanted."""
        place = self.places[task_id]
        run = self.runs[place.run_id]
        items = items_of(links, domain=run.domain, wanted=run.item_pattern)
        return [(place.run_id, digest, place.start_no, item.url) for digest, item in items.items()]


async def _open(conn: Conn, task_ids: Sequence[int]) -> _Book:
    """Locks go runs, start pages; before them tasks, permits and domains are locked."""
    places = await places_of(conn, sorted(task_ids))
    runs = await share_runs(conn, list({place.run_id for place in places.values()})) if places else {}
    keys = sorted({place.start for place in places.values() if place.run_id in runs})
    starts = await lock_start_pages(conn, keys) if keys else {}
    return _Book(places, runs, starts, [])


async def _close(conn: Conn, book: _Book) -> None:
    counts = await add_urls(conn, book.found)
    for key, count in counts.items():
        book.starts[key].collected += count
    wanted = [
        (book.runs[start.run_id], start.start_no, url) for start in book.starts.values() for url in start.next_urls
    ]
    asked = await ask_for_pages(conn, wanted)
    for key, start in book.starts.items():
        if start.is_open:
            start.asked(asked.get(key, 0))
    await save_start_pages(conn, list(book.starts.values()))


async def collect(conn: Conn, taken: Sequence[Message], tasks: Mapping[int, TaskRow]) -> None:
    """Facts that changed list pages: what was read is collected, what failed is written down. Domains are locked."""
    mine = [(task, fact) for fact in taken if (task := tasks[_task_of(fact)]).kind == "list"]
    if not mine:
        return
    book = await _open(conn, list({task.task_id for task, _ in mine}))
    for task, fact in mine:
        start = book.start_of(task.task_id)
        if start is None:
            continue
        start.begun()
        if isinstance(fact, PageParsed):
            _read(book, start, task.task_id, fact)
        elif error := _stumble(fact):
            start.stumbled(at=_time_of(fact), proxy_id=_proxy_of(fact), error=error)
    await _close(conn, book)


def _read(book: _Book, start: StartPage, task_id: int, fact: PageParsed) -> None:
    if not start.is_open:
        start.left()
        return
    items = book.items(task_id, fact.links)
    wanted = start.read(
        book.places[task_id].url,
        links=fact.links,
        item_urls=[url for _, _, _, url in items],
        fingerprint=fact.fingerprint,
        says_empty=fact.says_empty,
        http_status=fact.page.http_status,
        most=book.runs[start.run_id].max_list_pages,
    )
    if wanted:
        book.found += items


async def collect_links(conn: Conn, task: TaskRow, links: Sequence[Link]) -> None:
    """Some of the links of a page that has very many: the page itself is heard of later. Nothing but the task is locked."""
    book = await _open(conn, [task.task_id])
    if book.open_start_of(task.task_id) is not None:
        book.found += book.items(task.task_id, links)
    await _close(conn, book)


async def give_up(conn: Conn, ended: Sequence[TaskRow]) -> None:
    """List pages that ended without having been read. Domains are locked by the caller."""
    lost = [task for task in ended if task.kind == "list" and task.status in TERMINAL - {Status.COMPLETED}]
    if not lost:
        return
    book = await _open(conn, [task.task_id for task in lost])
    for task in lost:
        start = book.start_of(task.task_id)
        if start is None:
            continue
        if not start.is_open:
            start.left()
            continue
        error = task.error or task.event
        if task.event not in ("fetch_failed", "blocked", "parse_failed"):
            # No fact has told of it.
            start.stumbled(at=datetime.now(UTC), proxy_id=task.proxy_id, error=error)
        start.lost(
            book.places[task.task_id].url,
            error=error,
            http_status=task.http_status or 0,
            blocked=task.event == "blocked",
            most=book.runs[start.run_id].max_list_pages,
        )
    await _close(conn, book)


def _task_of(fact: Message) -> int:
    source = fact.page if isinstance(fact, PageParsed | ParseFailed) else fact
    task_id: int = source.task_id  # type: ignore[attr-defined]
    return task_id


def _stumble(fact: Message) -> str | None:
    """What failed, where something did. A page that is not there is no failure of whoever asked for it."""
    if isinstance(fact, ParseFailed):
        return fact.error or "it could not be parsed"
    if isinstance(fact, FetchFailed) and fact.http_status in GONE:
        return None
    return told(fact) or ("it failed" if isinstance(fact, FetchFailed | PageRejected) else None)


def _time_of(fact: Message) -> datetime:
    source = fact.page if isinstance(fact, ParseFailed) else fact
    at = to_datetime(source.started_time)  # type: ignore[attr-defined]
    return at or datetime.now(UTC)


def _proxy_of(fact: Message) -> int | None:
    source = fact.page if isinstance(fact, ParseFailed) else fact
    proxy_id = source.proxy_id if isinstance(source, PageFetched | FetchFailed | PageRejected) else 0
    return proxy_id or None
