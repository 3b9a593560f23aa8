"""How long a task waits after a failure, and when it is given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from limpet.kit.backoff import delay

MAX_BLOCKS = 10
MAX_LOSSES = 10
MAX_REDIRECTS = 5
RETRY_CAP = 3600.0
BLOCK_CAP = 300.0
RETRY_AFTER_CAP = 3600.0


@dataclass(frozen=True)
class RetryPolicy:
    """Seconds before the first retry; each further one doubles them."""

    retry_base: float = 60.0
    block_base: float = 30.0

    def after_error(self, count: int, *, rng: Random) -> float:
        return delay(count, base=self.retry_base, cap=RETRY_CAP, rng=rng)

    def after_block(self, count: int, *, retry_after: int, rng: Random) -> float:
        """The site's own word wins over ours."""
        if retry_after > 0:
            return min(float(retry_after), RETRY_AFTER_CAP)
        return delay(count, base=self.block_base, cap=BLOCK_CAP, rng=rng)
