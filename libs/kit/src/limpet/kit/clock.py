"""Times on the wire: protobuf timestamps to seconds and to datetimes, and back."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_stamp(moment: datetime) -> Timestamp:
    return Timestamp(seconds=math.floor(moment.timestamp()), nanos=moment.microsecond * 1000)


def seconds_to_stamp(seconds: float) -> Timestamp:
    whole, micros = divmod(round(seconds * 1e6), 1_000_000)
    return Timestamp(seconds=whole, nanos=micros * 1000)


def to_seconds(stamp: Timestamp) -> float:
    return stamp.seconds + stamp.nanos / 1e9


def to_datetime(stamp: Timestamp) -> datetime | None:
    """None for a field that was not set."""
    seconds, nanos = stamp.seconds, stamp.nanos
    if not seconds and not nanos:
        return None
    return EPOCH + timedelta(0, seconds, nanos // 1000)
