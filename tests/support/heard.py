"""Facts as they go by on the streams' subjects, for tests to wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import Message
from nats.aio.msg import Msg

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred
from limpet.contracts.events.v1.fetch_pb2 import FetchFailed, FetchReturned
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected
from limpet.contracts.events.v1.parse_pb2 import LinksDiscovered, PageParsed, ParseFailed
from limpet.contracts.events.v1.quality_pb2 import QualityChanged
from limpet.kit.bus import Bus, subject_of
from tests.support.waiting import until

M = TypeVar("M", bound=Message)
KINDS: dict[str, type[Message]] = {
    subject_of(kind): kind
    for kind in (
        PageFetched,
        PageRejected,
        FetchFailed,
        FetchReturned,
        PageParsed,
        ParseFailed,
        LinksDiscovered,
        ErrorOccurred,
        QualityChanged,
    )
}
ERROR = subject_of(ErrorOccurred)


def task_of(fact: Message) -> int:
    source: Any = getattr(fact, "page", fact)
    return int(source.task_id)


@dataclass
class Heard:
    facts: list[Message] = field(default_factory=list)

    async def on_message(self, message: Msg) -> None:
        kind = ErrorOccurred if message.subject == ERROR else KINDS[message.subject]
        self.facts += [kind.FromString(record) for record in Batch.FromString(message.data).records]

    def of(self, kind: type[M], task_id: int | None = None) -> list[M]:
        return [fact for fact in self.facts if isinstance(fact, kind) and (task_id is None or task_of(fact) == task_id)]

    async def one(self, kind: type[M], task_id: int, *, seconds: float = 10) -> M:
        """The fact of this kind about the task; any other one about it is a failure of the test."""

        async def there() -> list[Message]:
            beside = {LinksDiscovered, ErrorOccurred} - {kind}
            return [fact for fact in self.facts if type(fact) not in beside and task_of(fact) == task_id]

        (fact,) = await until(there, seconds=seconds)
        assert isinstance(fact, kind), fact
        return fact


async def listen(bus: Bus, *, errors: bool = False) -> Heard:
    """To all facts, or to the errors alone."""
    heard = Heard()
    for subject in [ERROR] if errors else KINDS:
        await bus.client.subscribe(subject, cb=heard.on_message)
    await bus.client.flush()
    return heard
