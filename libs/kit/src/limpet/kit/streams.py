"""The streams and consumers there are, declared in one place and made again whenever they are missing."""

from __future__ import annotations

from dataclasses import dataclass

from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import BadRequestError, NotFoundError

MINUTE = 60.0


@dataclass(frozen=True)
class StreamSpec:
    name: str
    subjects: tuple[str, ...]
    retention: RetentionPolicy = RetentionPolicy.LIMITS
    max_age: float = 15 * MINUTE
    max_bytes: int = -1
    per_subject: int = -1
    discard: DiscardPolicy = DiscardPolicy.NEW


@dataclass(frozen=True)
class ConsumerSpec:
    """A durable pull consumer. `ack_wait` is always later than the last moment an order may start."""

    name: str
    stream: str
    subjects: tuple[str, ...]
    ack_wait: float = 30.0
    max_deliver: int = 20
    max_ack_pending: int = 5000


FETCH = StreamSpec("FETCH", ("crawl.fetch.requested.*",), retention=RetentionPolicy.WORK_QUEUE)
PAGES = StreamSpec("PAGES", ("crawl.page.*", "crawl.fetch.failed", "crawl.fetch.returned"))
PARSED = StreamSpec("PARSED", ("crawl.parsed.*", "crawl.links.*"))
FACTS = StreamSpec(
    "FACTS",
    ("domain.changed.*", "proxy.changed.*", "watch.changed.*", "run.ended.*"),
    max_age=0,
    per_subject=1,
    discard=DiscardPolicy.OLD,
)
ERRORS = StreamSpec("ERRORS", ("error.*",), max_age=24 * 60 * MINUTE, max_bytes=64 << 20, discard=DiscardPolicy.OLD)
DEAD = StreamSpec("DEAD", ("dead.*",), max_age=30 * 24 * 60 * MINUTE, max_bytes=256 << 20, discard=DiscardPolicy.OLD)
STREAMS = (FETCH, PAGES, PARSED, FACTS, ERRORS, DEAD)

FETCHER_HIGH = ConsumerSpec("fetcher-high", "FETCH", ("crawl.fetch.requested.high",))
FETCHER_NORMAL = ConsumerSpec("fetcher-normal", "FETCH", ("crawl.fetch.requested.normal",))
SCHEDULER_SETTLE_PAGES = ConsumerSpec(
    "scheduler-settle-pages",
    "PAGES",
    ("crawl.page.fetched", "crawl.page.rejected", "crawl.fetch.failed", "crawl.fetch.returned"),
)
PARSER = ConsumerSpec("parser", "PAGES", ("crawl.page.fetched", "crawl.page.parse_requested"), ack_wait=60.0)
SCHEDULER_SETTLE_PARSED = ConsumerSpec("scheduler-settle-parsed", "PARSED", ("crawl.parsed.*",))
SCHEDULER_DISCOVER = ConsumerSpec("scheduler-discover", "PARSED", ("crawl.links.*",))
HEALTH_ERRORS = ConsumerSpec("health-errors", "ERRORS", ("error.*",))
BROKER_DOMAINS = ConsumerSpec("broker-domains", "FACTS", ("domain.changed.*",))
CONSUMERS = (
    FETCHER_HIGH,
    FETCHER_NORMAL,
    SCHEDULER_SETTLE_PAGES,
    PARSER,
    SCHEDULER_SETTLE_PARSED,
    SCHEDULER_DISCOVER,
    HEALTH_ERRORS,
    BROKER_DOMAINS,
)


async def ensure(js: JetStreamContext, *, replicas: int) -> None:
    """Make every stream and consumer that is missing. Cheap when all are there; safe to run from many processes."""
    for stream in STREAMS:
        await _ensure_stream(js, stream, replicas=replicas)
    for consumer in CONSUMERS:
        await _ensure_consumer(js, consumer)


async def absent(js: JetStreamContext) -> list[str]:
    """The names of the streams and consumers that are missing."""
    found = []
    for stream in STREAMS:
        try:
            await js.stream_info(stream.name)
        except NotFoundError:
            found.append(stream.name)
    for consumer in CONSUMERS:
        try:
            await js.consumer_info(consumer.stream, consumer.name)
        except NotFoundError:
            found.append(consumer.name)
    return found


async def _ensure_stream(js: JetStreamContext, spec: StreamSpec, *, replicas: int) -> None:
    try:
        there = (await js.stream_info(spec.name)).config
        if not set(spec.subjects) <= set(there.subjects or ()):
            # Made by an older version. What only the stream has stays, for versions that roll out side by side.
            await js.update_stream(there, subjects=sorted({*(there.subjects or ()), *spec.subjects}))
    except NotFoundError:
        await js.add_stream(
            StreamConfig(
                name=spec.name,
                subjects=list(spec.subjects),
                retention=spec.retention,
                storage=StorageType.FILE,
                discard=spec.discard,
                max_age=spec.max_age,
                max_bytes=spec.max_bytes,
                max_msgs_per_subject=spec.per_subject,
                num_replicas=replicas,
                duplicate_window=min(120.0, spec.max_age or 120.0),
            )
        )


async def _ensure_consumer(js: JetStreamContext, spec: ConsumerSpec) -> None:
    try:
        await js.consumer_info(spec.stream, spec.name)
    except NotFoundError:
        config = ConsumerConfig(
            durable_name=spec.name,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=spec.ack_wait,
            max_deliver=spec.max_deliver,
            max_ack_pending=spec.max_ack_pending,
            filter_subjects=list(spec.subjects),
        )
        try:
            await js.add_consumer(spec.stream, config)
        except BadRequestError:
            # Another process made it between the look and the making.
            await js.consumer_info(spec.stream, spec.name)
