"""What the bytes of a message say, as JSON for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from limpet.contracts.events.v1 import beat_pb2, domain_pb2, fetch_pb2, page_pb2, parse_pb2, proxy_pb2, watch_pb2
from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.kit.bus import subject_of

MOST_RECORDS: Final = 100
MOST_BYTES: Final = 256

_FILES = (beat_pb2, domain_pb2, fetch_pb2, page_pb2, parse_pb2, proxy_pb2, watch_pb2)
_EVENTS = [GetMessageClass(found) for file in _FILES for found in file.DESCRIPTOR.message_types_by_name.values()]
KINDS: Final[Mapping[str, type[Message]]] = {subject_of(kind): kind for kind in _EVENTS if subject_of(kind)}
_ALONE: Final = (domain_pb2.DomainChanged, proxy_pb2.ProxyChanged, watch_pb2.WatchChanged)


def kind_of(subject: str) -> type[Message] | None:
    """The kind that a subject promises, or None for a subject on which no event is published."""
    return KINDS.get(subject) or KINDS.get(subject.rpartition(".")[0])


def records_of(subject: str, data: bytes) -> Sequence[bytes] | None:
    """The bytes of each record, or None when they are not what the subject promises.

    The last word about a thing travels alone, all else in batches.
    """
    kind = kind_of(subject)
    try:
        if kind is None:
            return None
        if kind in _ALONE:
            kind.FromString(data)
            return [data]
        records = Batch.FromString(data).records
    except DecodeError:
        return None
    # A message that is no batch can pass for one in which nothing is known.
    return records if records or not data else None


def content_of(subject: str, data: bytes) -> list[dict[str, Any]]:
    """The first records: `{"message": …}` each, or `{"hex": …}` where the bytes are none."""
    kind, records = kind_of(subject), records_of(subject, data)
    if kind is None or records is None:
        return [_hex(data)]
    return [_entry(kind, record) for record in records[:MOST_RECORDS]]


def _entry(kind: type[Message], record: bytes) -> dict[str, Any]:
    try:
        return {"message": json_format.MessageToDict(kind.FromString(record), preserving_proto_field_name=True)}
    except (DecodeError, ValueError, json_format.Error):
        # Some bytes decode and still have no JSON: a time after the year 9999.
        return _hex(record)


def _hex(data: bytes) -> dict[str, Any]:
    return {"hex": data[:MOST_BYTES].hex()}
