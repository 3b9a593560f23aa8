"""Events, streams and consumers fit together: nothing is published into nowhere or read from nowhere."""

from __future__ import annotations

from itertools import combinations

import pytest
from google.protobuf.message import Message
from nats.js.api import RetentionPolicy

from limpet.contracts.events.v1.beat_pb2 import Beat, BreakerState
from limpet.contracts.events.v1.fetch_pb2 import FetchRequested
from limpet.kit.bus import Bus, subject_of
from limpet.kit.streams import CONSUMERS, DEAD, FACTS, STREAMS, ConsumerSpec, StreamSpec
from tests.contract.messages import every_message, filled

# Core NATS: whoever listens hears them, nothing depends on them.
CORE = ("beat", "started.*", "clock.read")
EVENTS = {name: kind for name, kind in every_message().items() if subject_of(kind)}
STORED = {
    name: kind for name, kind in EVENTS.items() if not subject_of(kind).startswith(("beat", "started.", "clock."))
}


def matches(pattern: str, subject: str) -> bool:
    """NATS: `*` is exactly one word, `>` the rest."""
    wanted, words = pattern.split("."), subject.split(".")
    for place, word in enumerate(wanted):
        if word == ">":
            return len(words) > place
        if place >= len(words) or word not in ("*", words[place]):
            return False
    return len(wanted) == len(words)


def spoken(kind: type[Message]) -> tuple[str, str]:
    """An event goes out on its subject, or on its subject and one word more (a lane, a name)."""
    return subject_of(kind), f"{subject_of(kind)}.word"


def homes(kind: type[Message]) -> list[tuple[str, str]]:
    return [
        (stream.name, pattern)
        for stream in STREAMS
        for pattern in stream.subjects
        if any(matches(pattern, subject) for subject in spoken(kind))
    ]


def stream_of(spec: ConsumerSpec) -> StreamSpec:
    (stream,) = (stream for stream in STREAMS if stream.name == spec.stream)
    return stream


def test_the_subject_is_read_from_the_contract() -> None:
    assert subject_of(FetchRequested) == "crawl.fetch.requested"
    assert subject_of(Beat) == "beat"
    assert subject_of(BreakerState) == "", "a part of an event has no subject"


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_an_event_belongs_to_exactly_one_stream_or_to_core_nats(name: str) -> None:
    core = [pattern for pattern in CORE if matches(pattern, subject_of(EVENTS[name]))]
    assert len(homes(EVENTS[name])) + len(core) == 1


def test_no_two_events_share_a_subject() -> None:
    subjects = [subject_of(kind) for kind in EVENTS.values()]
    assert sorted(subjects) == sorted(set(subjects))


def test_no_subject_can_be_in_two_streams() -> None:
    patterns = [(stream.name, pattern) for stream in STREAMS for pattern in stream.subjects]
    clashes = [
        (one, other)
        for one, other in combinations(patterns, 2)
        if matches(one[1], other[1].replace("*", "word")) or matches(other[1], one[1].replace("*", "word"))
    ]
    assert clashes == []


def test_every_subject_of_a_stream_has_an_event() -> None:
    used = {home for kind in EVENTS.values() for home in homes(kind)}
    declared = {(stream.name, pattern) for stream in STREAMS if stream is not DEAD for pattern in stream.subjects}
    assert declared - used == set()


@pytest.mark.parametrize("spec", CONSUMERS, ids=lambda spec: spec.name)
def test_what_a_consumer_reads_is_in_its_stream_and_in_the_contract(spec: ConsumerSpec) -> None:
    for subject in spec.subjects:
        example = subject.replace("*", "word")
        assert any(matches(pattern, example) for pattern in stream_of(spec).subjects), f"{subject} is not in the stream"
        said = [
            kind
            for kind in EVENTS.values()
            if matches(subject, subject_of(kind)) or subject.rpartition(".")[0] == subject_of(kind)
        ]
        assert said, f"no event is published on {subject}"


def test_every_event_of_a_working_stream_has_a_reader() -> None:
    """Of FACTS each service keeps the last ones by itself; the dead are for people."""
    unread = [
        name
        for name, kind in STORED.items()
        if homes(kind)[0][0] != FACTS.name
        and not any(
            matches(subject, subject_of(kind)) or subject.rpartition(".")[0] == subject_of(kind)
            for spec in CONSUMERS
            for subject in spec.subjects
        )
    ]
    assert unread == []


def test_durable_names_are_unique_and_their_letters_are_buried_in_the_dead_stream() -> None:
    names = [spec.name for spec in CONSUMERS]
    assert sorted(names) == sorted(set(names))
    assert [name for name in names if not any(matches(pattern, f"dead.{name}") for pattern in DEAD.subjects)] == []


def test_readers_of_a_work_queue_never_ask_for_the_same_order() -> None:
    queues = {stream.name for stream in STREAMS if stream.retention is RetentionPolicy.WORK_QUEUE}
    assert queues
    for one, other in combinations([spec for spec in CONSUMERS if spec.stream in queues], 2):
        assert one.stream != other.stream or not set(one.subjects) & set(other.subjects)


async def test_every_event_lands_in_its_stream_on_a_real_server(bus: Bus) -> None:
    """The server is the judge of subjects, not the `matches` above."""
    js = bus.client.jetstream()
    for name, kind in STORED.items():
        ((stream, pattern),) = homes(kind)
        suffix = "" if matches(pattern, subject_of(kind)) else "word"
        before = (await js.stream_info(stream)).state.messages
        await bus.publish(filled(kind), key=name, suffix=suffix)
        assert (await js.stream_info(stream)).state.messages == before + 1, name
