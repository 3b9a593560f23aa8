"""Pure rules of choosing: the ladder of tiers, the score and the draw, arrays as text."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from limpet.proxy_broker.ladder import cheaper, climb
from limpet.proxy_broker.literals import numbers, texts
from limpet.proxy_broker.score import LEAST, Record, draw, score

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIERS = ("direct", "datacenter", "residential")


def record(proxy_id: int = 1, *, room: int = 1000, priority: int = 5, **known: Any) -> Record:
    nothing = dict.fromkeys(("success_share", "block_share", "avg_response_ms", "monthly_cost", "cost_per_gb"))
    values = {**nothing, "shared_at": NOW if "success_share" in known else None, **known}
    return Record(group=0, proxy_id=proxy_id, priority=priority, room=room, **values)


@pytest.mark.parametrize(
    ("tiers", "reached", "direct", "expected"),
    [
        ((), "", True, ("",)),
        (TIERS, "", True, TIERS),
        (TIERS, "", False, TIERS[1:]),
        (TIERS, "residential", True, ("residential",)),
        (TIERS, "mobile", False, TIERS[1:]),
        (("direct",), "", False, ("nowhere",)),
    ],
)
def test_b6_a_request_climbs_from_the_tier_that_was_reached(
    tiers: tuple[str, ...], reached: str, direct: bool, expected: tuple[str, ...]
) -> None:
    assert climb(tiers, reached=reached, direct_allowed=direct) == expected


def test_b6_the_cheaper_tier_is_the_next_below_that_the_request_may_use() -> None:
    assert cheaper(TIERS, reached="residential", direct_allowed=False) == "datacenter"
    assert cheaper(TIERS, reached="datacenter", direct_allowed=True) == "direct"
    assert cheaper(TIERS, reached="datacenter", direct_allowed=False) is None
    assert cheaper(TIERS, reached="", direct_allowed=True) is None


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (record(success_share=0.9, block_share=0.0), record(success_share=0.3, block_share=0.0)),
        (record(success_share=0.9, block_share=0.0), record(success_share=0.9, block_share=0.6)),
        (record(avg_response_ms=100.0), record(avg_response_ms=9000.0)),
        (record(monthly_cost=1.0), record(monthly_cost=200.0)),
        (record(), record(cost_per_gb=12.0)),
    ],
    ids=["successes", "blocks", "time", "rent", "traffic"],
)
def test_b6_what_works_better_faster_or_cheaper_scores_higher(better: Record, worse: Record) -> None:
    assert 1 >= score(better, now=NOW) > score(worse, now=NOW) >= LEAST


def test_b6_an_old_record_counts_for_less_and_less() -> None:
    bad = record(success_share=0.0, block_share=1.0)
    scores = [score(bad, now=NOW + timedelta(hours=hours)) for hours in (0, 6, 24, 240)]
    assert scores == sorted(scores)
    assert scores[0] == LEAST
    assert scores[-1] == pytest.approx(score(record(), now=NOW), rel=0.01)


def test_b6_the_draw_follows_the_scores() -> None:
    pool = [record(1, success_share=1.0, block_share=0.0), record(2, success_share=0.5, block_share=0.0)]
    drawn = Counter(draw(pool, count=1000, now=NOW, chance=Random(1)))
    assert drawn[1] / drawn[2] == pytest.approx(4, rel=0.25)


def test_b6_the_draw_keeps_to_room_and_priority() -> None:
    pool = [record(1, room=2, priority=9), record(2, room=1, priority=1), record(3, room=0, priority=1)]
    assert draw(pool, count=5, now=NOW, chance=Random(1)) == [2, 1, 1]


def test_arrays_are_written_as_postgresql_reads_them() -> None:
    assert numbers([1, None, 2.5]) == "{1,NULL,2.5}"
    assert numbers([]) == "{}"
    assert texts(["a.test", 'q"u', "b\\s", "", "a.test"]) == '{"a.test","q\\"u","b\\\\s","","a.test"}'
