"""What is in hand, and when each piece of it last moved. The caller says what time it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


def _nothing() -> None:
    """A piece that nobody can break off."""


@dataclass(slots=True, eq=False)
class Piece:
    """One piece of work: since when it is in hand, when it last moved, until when it may be silent."""

    what: str
    since: float
    moved: float
    quiet_until: float = 0.0
    break_off: Callable[[], object] = field(default=_nothing, repr=False)
    where: Callable[[], str] = field(default=str, repr=False)

    def silent(self, now: float) -> float:
        """Seconds without a sign of it, not counting a silence that it had announced."""
        return max(0.0, now - max(self.moved, self.quiet_until))


class InHand:
    """An idle worker has nothing in hand, so it never stalls."""

    def __init__(self) -> None:
        self._pieces: set[Piece] = set()

    def __len__(self) -> int:
        return len(self._pieces)

    def take(self, what: str, *, now: float) -> Piece:
        piece = Piece(what, since=now, moved=now)
        self._pieces.add(piece)
        return piece

    def let_go(self, piece: Piece) -> None:
        self._pieces.discard(piece)

    def stalled(self, *, now: float, after: float) -> list[Piece]:
        """What has been silent for so long, the longest silence first."""
        found = [piece for piece in self._pieces if piece.silent(now) >= after]
        return sorted(found, key=lambda piece: piece.silent(now), reverse=True)


_piece: ContextVar[Piece | None] = ContextVar("piece", default=None)


@contextmanager
def working_on(piece: Piece) -> Iterator[None]:
    """Everything that is called in here may say that the piece has moved."""
    token = _piece.set(piece)
    try:
        yield
    finally:
        _piece.reset(token)


def progressed(now: float, *, quiet_for: float = 0.0) -> None:
    """The work in hand has moved, and may be silent for so long now. Nothing outside of work."""
    piece = _piece.get()
    if piece is not None:
        piece.moved = now
        piece.quiet_until = max(piece.quiet_until, now + quiet_for)
