"""Dead letters: messages that no consumer could handle, to be looked at, sent again or dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import nats.errors
import structlog
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from limpet.contracts.events.v1.fetch_pb2 import FetchRequested
from limpet.kit.bus import Bus, subject_of
from limpet.kit.errors import Retryable
from limpet.kit.streams import DEAD
from limpet.scheduler.decoding import kind_of
from limpet.scheduler.metrics import DEAD_LETTERS

log = structlog.get_logger()
TIMEOUT = 5.0
ORDERS = f"{subject_of(FetchRequested)}."
MARK = "Limpet-"


@dataclass(frozen=True)
class Letter:
    # The sequence in the stream: it grows, and no number comes twice.
    letter_id: int
    # Where it was published at first, and what it said there.
    subject: str
    headers: dict[str, str]
    data: bytes
    consumer: str
    error: str
    buried_at: datetime


def why_not_again(subject: str) -> str | None:
    """Why a letter of this subject may not be sent again, or None."""
    if subject.startswith(ORDERS):
        return "the permit of this order has expired; the scheduler brings its task back by itself"
    if kind_of(subject) is None:
        return "no event is published on the subject that the letter names"
    return None


class DeadLetters:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._js = bus.client.jetstream(timeout=TIMEOUT)

    async def walk(self, *, after: int = 0, consumer: str | None = None) -> AsyncIterator[Letter]:
        """Oldest first, one by one: a thousand of them need not be in memory at once."""
        while True:
            try:
                with self._asking():
                    subject = f"dead.{consumer or '*'}"
                    raw = await self._js.get_msg(DEAD.name, seq=after + 1, subject=subject, next=True)
            except NotFoundError:
                return
            letter = _letter(raw)
            yield letter
            after = letter.letter_id

    async def get(self, letter_id: int) -> Letter | None:
        try:
            with self._asking():
                return _letter(await self._js.get_msg(DEAD.name, seq=letter_id))
        except NotFoundError:
            return None

    async def replay(self, letter: Letter) -> bool:
        """Publish it again; once the server has it, it is no dead letter any more. False: somebody was faster."""
        # Always the same for one letter: a repeat after a lost answer, or two people at once, publish it once.
        key = f"replay:{letter.letter_id}:{letter.buried_at.timestamp()}"
        with self._asking():
            await self._js.publish(letter.subject, letter.data, headers={**letter.headers, "Nats-Msg-Id": key})
        if not await self.drop(letter.letter_id):
            return False
        log.info("dead_letter_replayed", letter_id=letter.letter_id, subject=letter.subject)
        return True

    async def drop(self, letter_id: int) -> bool:
        """False when it is gone already."""
        try:
            with self._asking():
                return await self._js.delete_msg(DEAD.name, letter_id)
        except NotFoundError:
            return False
        except Retryable:
            # The server has several errors for a message that is not there.
            if await self.get(letter_id) is None:
                return False
            raise

    async def count(self) -> int:
        with self._asking():
            return (await self._js.stream_info(DEAD.name)).state.messages

    async def run(self, *, every: float = 15.0) -> None:
        """A part: the gauge follows the stream. While NATS is away it stays where it was."""
        while True:
            try:
                DEAD_LETTERS.set(await self.count())
            except (Retryable, NotFoundError) as error:
                log.warning("dead_letters_not_counted", error=repr(error))
            await asyncio.sleep(every)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """What is not found is an answer; all else that NATS raises can be tried again."""
        if not self._bus.client.is_connected:
            raise Retryable("NATS is away; try again in a moment")
        try:
            yield
        except NotFoundError:
            raise
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise Retryable(f"NATS did not answer: {error!r}") from error


def _letter(raw: RawStreamMsg) -> Letter:
    headers = raw.headers or {}
    return Letter(
        letter_id=raw.seq or 0,
        subject=headers.get(f"{MARK}Subject", ""),
        headers={name: value for name, value in headers.items() if not name.startswith(MARK)},
        data=raw.data or b"",
        consumer=headers.get(f"{MARK}Consumer", ""),
        error=headers.get(f"{MARK}Error", ""),
        buried_at=raw.time or datetime.fromtimestamp(0, UTC),
    )
