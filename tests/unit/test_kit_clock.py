"""Times survive the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from limpet.kit.clock import seconds_to_stamp, to_datetime, to_seconds, to_stamp

MOMENTS = st.integers(min_value=1, max_value=7_000_000_000_000_000).map(
    lambda microseconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
)


@given(MOMENTS)
def test_a_moment_comes_back_to_the_microsecond(moment: datetime) -> None:
    assert to_datetime(to_stamp(moment)) == moment


@given(MOMENTS)
def test_seconds_and_moments_agree(moment: datetime) -> None:
    assert abs(to_seconds(to_stamp(moment)) - moment.timestamp()) < 1e-5
    assert abs(to_seconds(seconds_to_stamp(moment.timestamp())) - moment.timestamp()) < 1e-5


def test_a_field_that_was_not_set_is_no_moment() -> None:
    assert to_datetime(Timestamp()) is None
