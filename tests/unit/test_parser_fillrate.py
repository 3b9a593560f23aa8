"""When a field counts as not filled any more."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.parser.fill import ITEMS_A_PAGE, MAX_FIELDS, Fill
from limpet.parser.fillrate import PAGES, Limits, Past, folded, judged

LIMITS = Limits()
USUAL = Past(baseline=0.98, weight=1000.0)


def is_dropped(past: Past, seen: int, filled: int, field: str = "price") -> bool:
    return judged(past, field=field, seen=seen, filled=filled, limits=LIMITS).dropped


def test_p9_a_sudden_drop_against_its_own_past_is_one() -> None:
    assert is_dropped(USUAL, 100, 10)
    assert is_dropped(USUAL, 100, 0)


@pytest.mark.parametrize(
    ("past", "seen", "filled"),
    [
        (USUAL, 49, 0),  # too few now
        (Past(0.98, 199.0), 1000, 0),  # too short a past
        (Past(0.1, 1000.0), 1000, 0),  # hardly ever there
        (USUAL, 100, 80),  # a little less
        (Past(0.25, 1000.0), 50, 10),  # chance
    ],
)
def test_p9_too_little_is_no_drop(past: Past, seen: int, filled: int) -> None:
    assert not is_dropped(past, seen, filled)


def test_p9_pages_without_items_count_only_when_they_collapse() -> None:
    assert is_dropped(USUAL, 100, 60)
    assert not is_dropped(USUAL, 100, 60, field=PAGES)
    assert is_dropped(USUAL, 100, 20, field=PAGES)


def test_p9_a_drop_ends_well_above_where_it_began() -> None:
    dropped = Past(0.98, 1000.0, dropped=True)
    assert is_dropped(dropped, 100, 80), "between the two lines nothing changes"
    assert not is_dropped(USUAL, 100, 80)
    assert not is_dropped(dropped, 100, 90)
    assert is_dropped(dropped, 10, 10), "and a few samples end nothing"


def test_p9_the_past_fades_and_a_new_usual_is_learned_slowly_while_dropped() -> None:
    faded = folded(Past(1.0, 1000.0), seen=0, filled=0, hours=72, limits=LIMITS)
    assert faded.weight == pytest.approx(500)
    past, hours = Past(1.0, 3000.0, dropped=True), 0
    while past.dropped and hours < 1000:
        past = folded(past, seen=200, filled=80, hours=1, limits=LIMITS)
        past, hours = judged(past, field="price", seen=200, filled=80, limits=LIMITS), hours + 1
    assert 48 < hours < 24 * 30


@given(st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 100)), max_size=50))
def test_p9_a_baseline_is_always_a_share(samples: list[tuple[int, float, float]]) -> None:
    past = Past()
    for seen, share, hours in samples:
        filled = int(seen * share)
        past = judged(past, field="x", seen=seen, filled=filled, limits=LIMITS)
        past = folded(past, seen=seen, filled=filled, hours=hours, limits=LIMITS)
        assert 0 <= past.baseline <= 1.000001
        assert past.weight >= 0


def test_p9_values_are_counted_and_empty_ones_are_not() -> None:
    fill = Fill()
    fill.add([orjson.dumps({"a": 0, "b": False, "c": None, "d": "", "e": [], "f": "x"}).decode()])
    fill.add([])
    rows = {name: (seen, filled) for name, seen, filled in fill.rows()}
    assert rows == {"*": (2, 1), "a": (1, 1), "b": (1, 1), "c": (1, 0), "d": (1, 0), "e": (1, 0), "f": (1, 1)}


def test_p9_one_page_cannot_make_the_count_grow_without_end() -> None:
    fill = Fill()
    fill.add([orjson.dumps({f"{n}-{field}": 1 for field in range(500)}).decode() for n in range(500)])
    fill.add(["[1]", "3"])
    assert len(fill.filled) == MAX_FIELDS
    assert fill.items == ITEMS_A_PAGE
