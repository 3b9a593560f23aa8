"""One message in hand: what it holds, and the ways to let go of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import orjson
from google.protobuf.message import DecodeError, Message
from nats.aio.client import Client
from nats.aio.msg import Msg

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.kit.errors import Permanent

M = TypeVar("M", bound=Message)


class Undecodable(Permanent):
    """The bytes are not what the subject promises."""


@dataclass(frozen=True)
class Delivery:
    """A JetStream message that must be acknowledged one way or another."""

    client: Client
    raw: Msg

    @property
    def data(self) -> bytes:
        return self.raw.data

    @property
    def subject(self) -> str:
        return self.raw.subject

    @property
    def headers(self) -> dict[str, str]:
        return self.raw.headers or {}

    @property
    def delivered(self) -> int:
        """1 for the first delivery."""
        parts = self.raw.reply.split(".")
        return int(parts[4] if len(parts) == 9 else parts[6])

    @property
    def sequence(self) -> str:
        """Its number in the stream."""
        parts = self.raw.reply.split(".")
        return parts[5 if len(parts) == 9 else 7]

    @property
    def redelivered(self) -> bool:
        return self.delivered > 1

    def message(self, kind: type[M]) -> M:
        try:
            return kind.FromString(self.data)
        except DecodeError as error:
            raise Undecodable(f"{self.subject}: {error}") from error

    def records(self, kind: type[M]) -> list[M]:
        """The records of a batch message."""
        try:
            return [kind.FromString(record) for record in Batch.FromString(self.data).records]
        except DecodeError as error:
            raise Undecodable(f"{self.subject}: {error}") from error

    async def ack(self) -> None:
        await self.client.publish(self.raw.reply, b"+ACK")

    async def nak(self, *, delay: float = 0.0) -> None:
        await self.client.publish(self.raw.reply, b"-NAK " + orjson.dumps({"delay": int(delay * 1e9)}))

    async def in_progress(self) -> None:
        await self.client.publish(self.raw.reply, b"+WPI")

    async def terminate(self) -> None:
        await self.client.publish(self.raw.reply, b"+TERM")
