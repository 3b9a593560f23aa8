"""What people ask of a catalogue, from the word that is in every name to the number that is in one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from bench.products.fill import BRANDS, COLOURS, THINGS

Question = Callable[[Random, int], dict[str, Any]]


def _price(rng: Random, width: float) -> dict[str, Any]:
    low = round(rng.uniform(3, 900), 2)
    return {"price_min": low, "price_max": round(low * width, 2)}


QUESTIONS: Final[dict[str, Question]] = {
    "a word in every name": lambda rng, n: {"q": "the", "after": rng.randrange(n)},
    "a word in a tenth": lambda rng, n: {"q": rng.choice(COLOURS), "after": rng.randrange(n)},
    "two words": lambda rng, n: {"q": f"{rng.choice(COLOURS)} {rng.choice(THINGS)}", "after": rng.randrange(n)},
    "a brand (500 of them)": lambda rng, n: {"q": f"brand{rng.randrange(BRANDS)}"},
    "a brand and a common word": lambda rng, n: {"q": f"the brand{rng.randrange(BRANDS)}"},
    "a number (one)": lambda rng, n: {"q": f"sku{rng.randrange(1, n)}"},
    "nothing has it": lambda rng, n: {"q": f"nowhere{rng.randrange(n)}"},
    "a price range, wide": lambda rng, n: _price(rng, 1.5),
    "a price range, narrow": lambda rng, n: _price(rng, 1.005),
    "a word and a price range": lambda rng, n: {"q": rng.choice(COLOURS), **_price(rng, 1.2)},
    "a common word and a narrow range": lambda rng, n: {"q": "the", **_price(rng, 1.005)},
    "a brand and a price range": lambda rng, n: {"q": f"brand{rng.randrange(BRANDS)}", **_price(rng, 1.5)},
    "a domain and a word": lambda rng, n: {
        "domain": f"shop-{rng.randrange(n // 10_000)}.bench", "q": rng.choice(COLOURS),
    },
    "changed in the last day": lambda rng, n: {"updated_since": (datetime.now(UTC) - timedelta(days=1)).isoformat()},
    "sold out, in dollars": lambda rng, n: {"availability": "out_of_stock", "currency": "USD"},
    "everything, from anywhere": lambda rng, n: {"after": rng.randrange(n)},
}  # fmt: skip
