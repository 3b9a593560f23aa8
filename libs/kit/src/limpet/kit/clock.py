"""Times on the wire: protobuf timestamps to seconds and to datetimes, and back."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp


def to_stamp(moment: datetime) -> Timestamp:
    return Timestamp(seconds=math.floor(moment.timestamp()), nanos=moment.microsecond * 1000)


def seconds_to_stamp(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromMicroseconds(round(seconds * 1e6))
    return stamp


def to_seconds(stamp: Timestamp) -> float:
    return stamp.seconds + stamp.nanos / 1e9


def to_datetime(stamp: Timestamp) -> datetime | None:
    """None for a field that was not set."""
    if not stamp.seconds and not stamp.nanos:
        return None
    return datetime.fromtimestamp(stamp.seconds, UTC).replace(microsecond=stamp.nanos // 1000)
