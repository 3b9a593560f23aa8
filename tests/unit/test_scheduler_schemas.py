"""What the scheduler's API takes is what its schema says, and nothing that the calendar or the database cannot bear."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from limpet.scheduler.api.schemas import BatchIn, DomainIn, RestartIn, TaskIn


@pytest.mark.parametrize(
    "value", [True, 0, -5, 1e12, float("nan"), "3600", " 3600 ", "-1", "1e3", "PT0S", "P3651D", "P999999999D", ""]
)
def test_a_frequency_is_a_duration_positive_and_at_most_ten_years(value: object) -> None:
    with pytest.raises(ValidationError):
        TaskIn.model_validate({"url": "http://a.test/", "crawl_frequency": value})
    with pytest.raises(ValidationError):
        DomainIn.model_validate({"name": "a.test", "default_crawl_frequency": value})


@pytest.mark.parametrize("value", ["PT1S", "P1D", "PT36H", "P3650D", 3600, 1.5])
def test_a_good_frequency_is_taken_as_seconds_or_spelt_out(value: object) -> None:
    TaskIn.model_validate({"url": "http://a.test/", "crawl_frequency": value})


@pytest.mark.parametrize(
    "value",
    [
        0,
        1_700_000_000,
        1.5,
        True,
        "1700000000",
        "1e9",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "3000-01-01T00:00:00Z",
    ],
)
def test_a_moment_is_spelt_out_with_a_zone_and_within_the_calendar(value: object) -> None:
    with pytest.raises(ValidationError):
        RestartIn.model_validate({"scheduled_at": value})


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00Z", "2999-12-31T23:59:59+00:00", "2030-01-01T00:00:00.5-05:00"])
def test_a_good_moment_is_taken(value: str) -> None:
    RestartIn.model_validate({"scheduled_at": value})


@pytest.mark.parametrize("value", [0, 1, "true", "yes", 1.0])
def test_a_flag_is_true_or_false(value: object) -> None:
    for body in ({"name": "b", "follow": value}, {"name": "b", "recrawl": value}):
        with pytest.raises(ValidationError):
            BatchIn.model_validate(body)
