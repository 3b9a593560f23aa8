"""NATS: publish with an awaited ack, batch records of one kind, consume with slots, speak core NATS."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from random import Random
from urllib.parse import urlsplit
from uuid import uuid4

import nats
import nats.errors
import structlog
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError
from prometheus_client import Counter, Histogram

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.contracts.options.v1.subject_pb2 import subject as subject_option
from limpet.kit import stall, tracing
from limpet.kit.backoff import delay
from limpet.kit.batch import Batcher
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Permanent, Retryable
from limpet.kit.ops import Readiness
from limpet.kit.pull import Pull
from limpet.kit.streams import ConsumerSpec, ensure

log = structlog.get_logger()

HANDLED = Counter(
    "limpet_bus_messages_total", "Messages handled, by consumer and how they ended.", ["consumer", "outcome"]
)
HANDLE_SECONDS = Histogram("limpet_bus_handle_seconds", "Time a message was in hand.", ["consumer"])

OUTCOMES = ("ok", "retry", "dead", "unsettled")
PUBLISH_TIMEOUT = 5.0
PUBLISH_PATIENCE = 25.0
Handler = Callable[[Delivery], Awaitable[None]]


def subject_of(kind: type[Message]) -> str:
    """The subject is part of the contract, so it is read from the .proto file."""
    return _subject(kind.DESCRIPTOR)


@cache
def _subject(descriptor: Descriptor) -> str:
    return str(descriptor.GetOptions().Extensions[subject_option])


class Bus:
    """One connection, shared by all parts of a process."""

    def __init__(self, client: Client, *, replicas: int) -> None:
        self.client = client
        self._js: JetStreamContext = client.jetstream(timeout=PUBLISH_TIMEOUT)
        self._replicas = replicas
        self._batches: dict[type[Message], Batcher] = {}
        self._ensuring = asyncio.Lock()
        self._ensured = 0.0
        self._hands: set[_Hand] = set()
        self.in_hand = stall.InHand()

    async def ensure(self) -> None:
        """Make the streams and consumers that are missing; many callers in trouble cost one look."""
        async with self._ensuring:
            if time.monotonic() - self._ensured > 1.0:
                await ensure(self._js, replicas=self._replicas)
                self._ensured = time.monotonic()

    async def publish(self, message: Message, *, key: str, suffix: str = "", traceparent: str = "") -> None:
        """One message, acknowledged by the server. The key makes a repeat harmless."""
        subject = subject_of(type(message)) + (f".{suffix}" if suffix else "")
        headers = {"Nats-Msg-Id": key}
        if traceparent := traceparent or tracing.current():
            headers[tracing.HEADER] = traceparent
        await self._publish(subject, message.SerializeToString(), headers)

    async def publish_together(self, messages: Sequence[Message], *, key: str, suffix: str = "") -> None:
        """Records of one kind as one message, acknowledged by the server: they reach one consumer together."""
        subject = subject_of(type(messages[0])) + (f".{suffix}" if suffix else "")
        batch = Batch(records=[message.SerializeToString() for message in messages])
        await self._publish(subject, batch.SerializeToString(), {"Nats-Msg-Id": key})

    async def record(self, *messages: Message) -> None:
        """Add messages of one kind to the open batch of their kind; returns when the server has all of them."""
        await self.record_encoded(type(messages[0]), [message.SerializeToString() for message in messages])

    async def record_encoded(self, kind: type[Message], records: Sequence[bytes]) -> None:
        """The same for messages that somebody else has encoded."""
        batcher = self._batches.get(kind)
        if batcher is None:
            subject = subject_of(kind)
            batcher = self._batches[kind] = Batcher(
                lambda data: self._publish(subject, data, {"Nats-Msg-Id": uuid4().hex})
            )
        await batcher.add(*records)

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        give_up = time.monotonic() + PUBLISH_PATIENCE
        attempt = 0
        while True:
            try:
                await self._js.publish(subject, data, timeout=PUBLISH_TIMEOUT, headers=headers)
                return
            except (nats.errors.Error, APIError, OSError, TimeoutError) as error:
                attempt += 1
                if time.monotonic() > give_up:
                    raise Retryable(f"NATS did not take a message on {subject}: {error!r}") from error
                if isinstance(error, NoStreamResponseError):
                    await self._try_ensure()
                await asyncio.sleep(delay(attempt, base=0.05, cap=2, rng=Random()))

    async def _try_ensure(self) -> None:
        try:
            await self.ensure()
        except (nats.errors.Error, OSError, TimeoutError) as error:
            log.warning("streams_unavailable", error=repr(error))

    async def notify(self, message: Message, *, suffix: str = "") -> None:
        """Core NATS: whoever listens hears it, nothing depends on it. Silent while disconnected."""
        if self.client.is_connected:
            await self.client.publish(
                subject_of(type(message)) + (f".{suffix}" if suffix else ""), message.SerializeToString()
            )

    async def request(self, subject: str, payload: bytes, *, timeout: float) -> bytes:
        try:
            return (await self.client.request(subject, payload, timeout=timeout)).data
        except (nats.errors.Error, OSError) as error:
            raise Retryable(f"no answer on {subject}: {error!r}") from error

    async def subscribe(
        self, subject: str, handler: Callable[[bytes], Awaitable[bytes | None]], *, queue: str = ""
    ) -> None:
        """Core NATS. What the handler returns is the reply."""

        async def on_message(message: Msg) -> None:
            try:
                answer = await handler(message.data)
            except Exception:
                log.exception("notice_failed", subject=message.subject)
                return
            if answer is not None and message.reply:
                await message.respond(answer)

        await self.client.subscribe(subject, queue=queue, cb=on_message)

    def reconnected(self) -> None:
        for hand in self._hands:
            hand.pull.lost()

    def look_again(self) -> None:
        """More fits than before, though nothing in hand has ended."""
        for hand in self._hands:
            hand.pull.wake()

    async def stop_pulling(self) -> None:
        """Take nothing more; what is on its way has arrived when this returns."""
        await asyncio.gather(*(hand.pull.stop() for hand in self._hands))

    async def drain(self, seconds: float) -> None:
        """Take nothing more and let what is in hand finish; what is left then goes to another."""
        await self.stop_pulling()
        if working := [task for hand in self._hands for task in hand.tasks]:
            await asyncio.wait(working, timeout=seconds)

    async def consume(
        self, spec: ConsumerSpec, handler: Handler, *, slots: int, free: Callable[[], int] | None = None
    ) -> None:
        """A part: hand each message to the handler, at most `slots` at a time (or as many as `free` says)."""
        hand = _Hand(self, spec, handler, slots=slots, free=free)
        self._hands.add(hand)
        try:
            await hand.run()
        finally:
            self._hands.discard(hand)

    async def bury(self, delivery: Delivery, spec: ConsumerSpec, error: BaseException) -> None:
        """To the dead-letter stream, with where it came from and why it is there."""
        headers = {
            **delivery.headers,
            "Nats-Msg-Id": uuid4().hex,
            "Limpet-Subject": delivery.subject,
            "Limpet-Consumer": spec.name,
            "Limpet-Error": _header(f"{type(error).__name__}: {error}"),
        }
        await self._publish(f"dead.{spec.name}", delivery.data, headers)


def _where(task: asyncio.Task[None]) -> str:
    """The innermost place that a task waits at."""
    place = ""
    waiting: object = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
        waiting = getattr(waiting, "cr_await", None)
    return place


def _header(text: str) -> str:
    """One line of ASCII: other letters reach the reader of a header as something that is no text."""
    return " ".join(text[:500].split()).encode("ascii", "backslashreplace").decode()


class _Hand:
    """The messages that one consumer has in hand."""

    def __init__(
        self, bus: Bus, spec: ConsumerSpec, handler: Handler, *, slots: int, free: Callable[[], int] | None
    ) -> None:
        self._bus = bus
        self._spec = spec
        self._handler = handler
        self._limit = free or (lambda: slots - len(self.tasks))
        self.tasks: dict[asyncio.Task[None], Delivery] = {}
        self._handled = {outcome: HANDLED.labels(spec.name, outcome) for outcome in OUTCOMES}
        self._seconds = HANDLE_SECONDS.labels(spec.name)
        self.pull = Pull(bus.client, spec, take=self._take, ensure=bus.ensure)

    async def run(self) -> None:
        extender = asyncio.create_task(self._extend())
        try:
            await self.pull.run(self._limit)
        finally:
            extender.cancel()
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(extender, *self.tasks, return_exceptions=True)

    def _take(self, delivery: Delivery) -> None:
        piece = self._bus.in_hand.take(f"{self._spec.name} #{delivery.sequence}", now=time.monotonic())
        task = asyncio.create_task(self._handle(delivery, piece))
        piece.break_off, piece.where = task.cancel, lambda: _where(task)
        self.tasks[task] = delivery
        task.add_done_callback(lambda ended: self._let_go(ended, piece))

    def _let_go(self, task: asyncio.Task[None], piece: stall.Piece) -> None:
        self._bus.in_hand.let_go(piece)
        self.tasks.pop(task, None)
        self.pull.wake()

    async def _handle(self, delivery: Delivery, piece: stall.Piece) -> None:
        started = time.monotonic()
        outcome = "ok"
        try:
            try:
                with tracing.use(delivery.headers.get(tracing.HEADER, "")), stall.working_on(piece):
                    await self._handler(delivery)
            except Permanent as error:
                outcome = "dead"
                log.error("message_buried", consumer=self._spec.name, subject=delivery.subject, error=repr(error))
                await self._bus.bury(delivery, self._spec, error)
                await delivery.terminate()
            except Exception as error:
                outcome = await self._fail(delivery, error)
            else:
                await delivery.ack()
        except asyncio.CancelledError:
            # The process stops, or the work did not move: another need not wait for ack_wait to take it.
            outcome = "retry"
            if self._bus.client.is_connected:
                await delivery.nak()
            raise
        except Exception as error:
            # The server is away: it will deliver again after ack_wait.
            outcome = "unsettled"
            log.warning("message_unsettled", consumer=self._spec.name, error=repr(error))
        finally:
            self._handled[outcome].inc()
            self._seconds.observe(time.monotonic() - started)

    async def _fail(self, delivery: Delivery, error: Exception) -> str:
        quiet = isinstance(error, Retryable)
        log.warning(
            "message_failed",
            consumer=self._spec.name,
            subject=delivery.subject,
            delivered=delivery.delivered,
            error=repr(error),
            exc_info=not quiet,
        )
        if delivery.delivered >= self._spec.max_deliver:
            await self._bus.bury(delivery, self._spec, error)
            await delivery.terminate()
            return "dead"
        await delivery.nak(delay=delay(delivery.delivered, base=0.2, cap=10, rng=Random()))
        return "retry"

    async def _extend(self) -> None:
        """Long work keeps its message: the server must not hand it to another while we are at it."""
        while True:
            await asyncio.sleep(self._spec.ack_wait / 3)
            for delivery in list(self.tasks.values()):
                if self._bus.client.is_connected:
                    await delivery.in_progress()


def inbox_of(url: str) -> str:
    """Each user has inboxes of its own, so that the server can keep others from listening to its answers."""
    user = urlsplit(url).username
    return f"_INBOX_{user}" if user and user.replace("-", "").replace("_", "").isalnum() else "_INBOX"


@asynccontextmanager
async def open_bus(
    url: str,
    *,
    name: str,
    replicas: int = 1,
    readiness: Readiness | None = None,
    ca_file: str = "",
    ensure: bool = True,
) -> AsyncIterator[Bus]:
    """A connected bus with all streams. Until NATS answers: not ready, retrying with backoff."""
    client = Client()
    tls = ssl.create_default_context(cafile=ca_file) if ca_file else None
    attempt = 0
    said = ""

    async def on_lost() -> None:
        if readiness is not None:
            readiness.set("nats", ok=False, why="connection lost")

    async def on_back() -> None:
        nonlocal said
        said = ""
        bus.reconnected()
        if readiness is not None:
            readiness.set("nats", ok=True)

    async def on_error(error: Exception) -> None:
        """The client tries for ever by itself, four times a second: said once, and to whoever asks."""
        nonlocal said
        if readiness is not None and not bus.client.is_connected:
            readiness.set("nats", ok=False, why=repr(error))
        if said != (said := repr(error)):
            log.warning("nats_error", error=said)

    bus = Bus(client, replicas=replicas)
    while True:
        try:
            await client.connect(
                url,
                name=name,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,  # type: ignore[arg-type]  # a float works, and a second is long
                ping_interval=5,
                max_outstanding_pings=2,
                connect_timeout=3,
                allow_reconnect=True,
                disconnected_cb=on_lost,
                reconnected_cb=on_back,
                error_cb=on_error,
                pending_size=64 << 20,
                tls=tls,
                inbox_prefix=inbox_of(url),
            )
            if ensure:
                await bus.ensure()
            break
        except (nats.errors.Error, OSError, TimeoutError) as error:
            attempt += 1
            if readiness is not None:
                readiness.set("nats", ok=False, why=repr(error))
            log.warning("waiting_for_nats", error=repr(error), attempt=attempt)
            await client.close()
            client = Client()
            bus = Bus(client, replicas=replicas)
            await asyncio.sleep(delay(attempt, base=0.25, cap=5, rng=Random()))
    if readiness is not None:
        readiness.set("nats", ok=True)
    try:
        yield bus
    finally:
        await client.close()
