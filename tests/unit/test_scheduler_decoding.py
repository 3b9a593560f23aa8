"""The bytes of any message, shown to people."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.contracts.events.v1.domain_pb2 import DomainChanged
from limpet.contracts.events.v1.fetch_pb2 import FetchFailed, FetchRequested
from limpet.contracts.events.v1.page_pb2 import PageFetched, ParseRequested
from limpet.kit.streams import CONSUMERS
from limpet.scheduler.decoding import content_of, kind_of, records_of

FAILED = "crawl.fetch.failed"


def batch(*records: bytes) -> bytes:
    return Batch(records=records).SerializeToString()


def failed(task_id: int) -> bytes:
    return FetchFailed(task_id=task_id, error="reset").SerializeToString()


@pytest.mark.parametrize("subject", sorted({subject for spec in CONSUMERS for subject in spec.subjects}))
def test_every_subject_that_is_consumed_promises_a_kind(subject: str) -> None:
    examples = {
        "crawl.parsed.*": "crawl.parsed.page",
        "crawl.links.*": "crawl.links.discovered",
        "error.*": "error.occurred",
    }
    assert kind_of(examples.get(subject, subject)) is not None


def test_a_batch_is_a_list_of_its_records() -> None:
    data = batch(failed(1), failed(2))
    assert records_of(FAILED, data) == [failed(1), failed(2)]
    assert content_of(FAILED, data) == [
        {"message": {"task_id": "1", "error": "reset"}},
        {"message": {"task_id": "2", "error": "reset"}},
    ]


def test_the_last_word_about_a_domain_travels_alone_and_orders_together() -> None:
    changed = DomainChanged(name="shop.test").SerializeToString()
    assert records_of("domain.changed.7", changed) == [changed]
    order = FetchRequested(task_id=7, url="http://shop.test/").SerializeToString()
    assert (
        content_of("crawl.fetch.requested.high", batch(order, order))
        == [{"message": {"task_id": "7", "url": "http://shop.test/"}}] * 2
    )


def test_a_message_inside_a_message_is_shown_too() -> None:
    asked = ParseRequested(page=PageFetched(task_id=3)).SerializeToString()
    assert content_of("crawl.page.parse_requested", batch(asked)) == [{"message": {"page": {"task_id": "3"}}}]


def test_no_more_than_a_hundred_records_are_shown_and_all_are_counted() -> None:
    data = batch(*(failed(number) for number in range(1, 251)))
    records = records_of(FAILED, data)
    assert records is not None
    assert len(records) == 250
    assert len(content_of(FAILED, data)) == 100


@pytest.mark.parametrize(
    ("subject", "data"),
    [
        (FAILED, b"\xff" * 300),
        # Not in a batch, where batches are promised: it decodes as one without a known field.
        (FAILED, failed(1)),
        ("crawl.fetch.requested.high", b"\xff" * 300),
        ("nobody.knows", batch(failed(1))),
        ("", b"x"),
    ],
    ids=["garbage", "alone", "order", "unknown", "nowhere"],
)
def test_bytes_that_are_not_what_was_promised_are_hex(subject: str, data: bytes) -> None:
    assert records_of(subject, data) is None
    assert content_of(subject, data) == [{"hex": data[:256].hex()}]


def test_one_bad_record_does_not_hide_the_others() -> None:
    data = batch(failed(1), b"\xff\xff", failed(3))
    assert content_of(FAILED, data) == [
        {"message": {"task_id": "1", "error": "reset"}},
        {"hex": "ffff"},
        {"message": {"task_id": "3", "error": "reset"}},
    ]


def test_a_time_that_no_calendar_has_is_hex() -> None:
    record = FetchFailed(task_id=1, started_time=Timestamp(seconds=1 << 50)).SerializeToString()
    assert content_of(FAILED, batch(record)) == [{"hex": record.hex()}]


def test_an_empty_batch_has_no_records() -> None:
    assert records_of(FAILED, b"") == []
    assert content_of(FAILED, b"") == []
