"""What becomes of a delivery after one try: delivered, tried again later, or dead. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from limpet.kit.backoff import delay
from limpet.scheduler.store.webhooks import Claim, Finished

MAX_TRIES: Final = 12
RETRY_BASE: Final = 10.0
RETRY_CAP: Final = 3600.0
# The receiver's word that it will never want it.
GONE: Final = 410


@dataclass(frozen=True)
class Answer:
    """What came of one POST: a status, or an error without one."""

    status: int | None = None
    error: str | None = None
    forbidden: bool = False
    late: bool = False

    @property
    def good(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def finish(claim: Claim, answer: Answer, *, rng: Random, base: float = RETRY_BASE) -> Finished:
    if answer.good:
        return Finished(claim.delivery_id, claim.tries, "delivered", 0.0, answer.status, None)
    error = answer.error or f"answered {answer.status}"
    if answer.forbidden or answer.status == GONE or claim.tries >= MAX_TRIES:
        return Finished(claim.delivery_id, claim.tries, "dead", 0.0, answer.status, error)
    wait = delay(claim.tries, base=base, cap=RETRY_CAP, rng=rng)
    return Finished(claim.delivery_id, claim.tries, "pending", wait, answer.status, error)
