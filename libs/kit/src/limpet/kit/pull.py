"""A pull consumer that refills its free slots one by one and survives a wiped or restarted server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import nats.errors
import orjson
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from limpet.kit.delivery import Delivery
from limpet.kit.streams import ConsumerSpec

log = structlog.get_logger()

HEARTBEAT = 4.0
EXPIRES = 20.0
STOP_SECONDS = 2.0


class Pull:
    """Asks for as many messages as there are free slots; `taken` gets each, `free` says how many more fit."""

    def __init__(
        self,
        client: Client,
        spec: ConsumerSpec,
        *,
        take: Callable[[Delivery], None],
        ensure: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._spec = spec
        self._take = take
        self._ensure = ensure
        self._asked: dict[str, int] = {}
        self._serial = 0
        self._wake = asyncio.Event()
        self._broken = True
        self._heard = time.monotonic()
        self._subscription: Subscription | None = None

    def wake(self) -> None:
        """A slot has become free."""
        self._wake.set()

    def lost(self) -> None:
        """The connection is new: the server knows nothing of what was asked before."""
        self._broken = True
        self._wake.set()

    async def run(self, free: Callable[[], int]) -> None:
        inbox = self._client.new_inbox()
        self._subscription = await self._client.subscribe(f"{inbox}.*", cb=self._on_message)
        try:
            while True:
                if self._broken or time.monotonic() - self._heard > 2.5 * HEARTBEAT:
                    await self._repair()
                asked = sum(self._asked.values())
                wanted = free() - asked
                # A request for each free slot would cost as much as its message: while one is open, the next is larger.
                if wanted > 0 and wanted >= asked and not self._broken and self._subscription is not None:
                    await self._ask(inbox, wanted)
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                self._wake.clear()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Ask for nothing more. What the server had sent before it heard of that is taken when this returns."""
        subscription, self._subscription = self._subscription, None
        self._wake.set()
        if subscription is not None and self._client.is_connected:
            with suppress(nats.errors.Error, OSError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await subscription.drain()  # type: ignore[no-untyped-call]

    async def _ask(self, inbox: str, count: int) -> None:
        self._serial += 1
        reply = f"{inbox}.{self._serial}"
        self._asked[reply] = count
        request = {"batch": count, "expires": int(EXPIRES * 1e9), "idle_heartbeat": int(HEARTBEAT * 1e9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._spec.stream}.{self._spec.name}"
        try:
            await self._client.publish(subject, orjson.dumps(request), reply=reply)
        except (nats.errors.Error, OSError):
            self._broken = True

    async def _on_message(self, message: Msg) -> None:
        self._heard = time.monotonic()
        # A status comes on the inbox itself; a work message comes under its own subject with a reply to ack to.
        if message.reply.startswith("$JS.ACK"):
            self._arrived(message)
            return
        status = (message.headers or {}).get("Status", "")
        if status == "100":
            return
        self._asked.pop(message.subject, None)
        if status not in ("404", "408"):
            description = (message.headers or {}).get("Description", "")
            # A full request ("batch completed") is normal; all else means: the server lost us.
            self._broken = self._broken or "completed" not in description.lower()
        self._wake.set()

    def _arrived(self, message: Msg) -> None:
        oldest = next(iter(self._asked), None)
        if oldest is not None:
            self._asked[oldest] -= 1
            if self._asked[oldest] <= 0:
                del self._asked[oldest]
        self._take(Delivery(self._client, message))

    async def _repair(self) -> None:
        """Any trouble that is not silence by agreement: make sure that streams and consumer exist, ask anew."""
        self._asked.clear()
        try:
            await self._ensure()
        except (nats.errors.Error, OSError, TimeoutError) as error:
            log.warning("consumer_unavailable", consumer=self._spec.name, error=repr(error))
            self._broken = True
            await asyncio.sleep(0.5)
        else:
            self._broken = False
            self._heard = time.monotonic()
