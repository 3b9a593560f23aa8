"""What counts as a stall: work in hand that is silent, and nothing else."""

from __future__ import annotations

from limpet.kit.stall import InHand, progressed, working_on


def test_f11_an_idle_worker_never_stalls() -> None:
    in_hand = InHand()
    assert in_hand.stalled(now=1e9, after=300) == []
    piece = in_hand.take("work", now=0)
    in_hand.let_go(piece)
    assert (len(in_hand), in_hand.stalled(now=1e9, after=300)) == (0, [])


def test_f11_work_that_does_not_move_for_300_seconds_has_stalled() -> None:
    in_hand = InHand()
    piece = in_hand.take("work", now=1000)
    assert in_hand.stalled(now=1299.9, after=300) == []
    assert in_hand.stalled(now=1300, after=300) == [piece]


def test_f11_work_that_moves_has_not_stalled_however_long_it_takes() -> None:
    in_hand = InHand()
    piece = in_hand.take("work", now=0)
    with working_on(piece):
        for now in range(0, 10_000, 250):
            progressed(now)
            assert in_hand.stalled(now=now + 299, after=300) == []
    assert in_hand.stalled(now=9750 + 300, after=300) == [piece]


def test_f11_a_silence_that_was_announced_does_not_count() -> None:
    in_hand = InHand()
    piece = in_hand.take("work", now=0)
    with working_on(piece):
        progressed(0, quiet_for=600)
        # Another part of the same piece moves meanwhile; the first may still be silent.
        progressed(10)
    assert in_hand.stalled(now=899, after=300) == []
    assert in_hand.stalled(now=900, after=300) == [piece]


def test_the_longest_silence_comes_first() -> None:
    in_hand = InHand()
    late, early = in_hand.take("late", now=50), in_hand.take("early", now=10)
    assert in_hand.stalled(now=400, after=300) == [early, late]
    assert in_hand.stalled(now=330, after=300) == [early]


def test_what_moves_outside_of_any_work_is_nothing() -> None:
    in_hand = InHand()
    in_hand.take("work", now=0)
    progressed(500)
    assert len(in_hand.stalled(now=500, after=300)) == 1
