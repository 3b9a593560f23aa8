"""Pages whose verdict is known, written by us after what vendors and sites show in public."""

from __future__ import annotations

from tests.support.labelled.good import GOOD
from tests.support.labelled.page import Labelled
from tests.support.labelled.walls import WALLS

LABELLED: tuple[Labelled, ...] = (*WALLS, *GOOD)

__all__ = ["GOOD", "LABELLED", "WALLS", "Labelled"]
