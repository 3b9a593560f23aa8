"""Maintenance windows: over midnight, in any time zone, on days when clocks change. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from limpet.scheduler.gates import closed_gate
from limpet.scheduler.windows import UnknownZone, closed_until
from tests.support.paces import make_pace


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def until(now: str, start: time, end: time, zone: str = "UTC") -> datetime | None:
    return closed_until(start=start, end=end, zone_name=zone, now=at(now))


DAY, NIGHT = (time(2), time(4)), (time(22), time(3))


@pytest.mark.parametrize(
    ("now", "window", "ends"),
    [
        ("2026-03-01T01:59:59", DAY, None),
        ("2026-03-01T02:00:00", DAY, "2026-03-01T04:00:00"),
        ("2026-03-01T03:59:59", DAY, "2026-03-01T04:00:00"),
        ("2026-03-01T04:00:00", DAY, None),
        ("2026-03-01T21:59:59", NIGHT, None),
        ("2026-03-01T22:00:00", NIGHT, "2026-03-02T03:00:00"),
        ("2026-03-02T00:00:00", NIGHT, "2026-03-02T03:00:00"),
        ("2026-03-02T02:59:59", NIGHT, "2026-03-02T03:00:00"),
        ("2026-03-02T03:00:00", NIGHT, None),
    ],
)
def test_s15_a_window_reaches_from_its_start_up_to_its_end(
    now: str, window: tuple[time, time], ends: str | None
) -> None:
    assert until(now, *window) == (at(ends) if ends else None)


def test_s15_a_window_is_kept_by_the_wall_clock_of_its_zone() -> None:
    assert until("2026-01-10T01:30:00", *DAY, "Europe/Berlin") == at("2026-01-10T03:00:00")
    assert until("2026-07-10T00:30:00", *DAY, "Europe/Berlin") == at("2026-07-10T02:00:00")
    assert until("2026-01-10T17:30:00", *DAY, "Asia/Tokyo") == at("2026-01-10T19:00:00")
    assert until("2026-01-10T02:30:00", *DAY, "Asia/Tokyo") is None


def test_s15_on_the_days_when_clocks_change_it_still_ends_at_its_wall_time() -> None:
    assert until("2026-03-29T00:30:00", time(1), time(4), "Europe/Berlin") == at("2026-03-29T02:00:00")
    assert until("2026-10-25T00:30:00", time(1), time(4), "Europe/Berlin") == at("2026-10-25T03:00:00")


def test_s15_nothing_and_a_window_of_no_length_close_nothing() -> None:
    assert closed_until(start=None, end=None, zone_name="UTC", now=at("2026-01-01T00:00:00")) is None
    assert until("2026-01-01T02:00:00", time(2), time(2)) is None


def test_s15_a_zone_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(UnknownZone, match="Mars/Olympus"):
        until("2026-01-01T02:00:00", *DAY, "Mars/Olympus")


def test_the_gate_that_only_a_person_opens_is_named_before_those_that_open_by_themselves() -> None:
    now = at("2026-03-01T03:00:00")
    window = {"maintenance_start": time(2), "maintenance_end": time(4)}
    held = {"held_until": now + timedelta(minutes=1), "held_reason": "retry_after"}
    broken = {"breaker_state": "open", "breaker_opened_at": now, "breaker_reason": "status 403"}
    names = [
        (gate.name, gate.until)
        for pace in (
            make_pace(is_active=False, **window, **held, **broken),
            make_pace(**window, **held, **broken),
            make_pace(**held, **broken),
            make_pace(**held),
        )
        if (gate := closed_gate(pace, now))
    ]
    assert names == [
        ("inactive", None),
        ("maintenance_window", at("2026-03-01T04:00:00")),
        ("breaker_open", now + timedelta(seconds=60)),
        ("retry_after", now + timedelta(minutes=1)),
    ]
    assert closed_gate(make_pace(), now) is None
