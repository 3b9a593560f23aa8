"""What the shop sells, made from numbers: the same products every time."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

CATEGORIES = {"lamps": "Ship's lamps", "ropes": "Ropes and knots", "shells": "Shells", "tools": "Rigger's tools"}
ADJECTIVES = ("Brass", "Tarred", "Pale", "Salted", "Twisted", "Heavy", "Small", "Weathered", "Polished", "Northern")
NOUNS = {
    "lamps": ("lantern", "oil lamp", "anchor light"),
    "ropes": ("hawser", "heaving line", "monkey's fist"),
    "shells": ("limpet", "whelk", "cowrie"),
    "tools": ("marlinspike", "fid", "caulking iron"),
}
SENTENCES = (
    "Made in small numbers by people who use it themselves.",
    "It has been at sea for a season before we sell it.",
    "The surface darkens with the years and with salt water.",
    "Rinse it with fresh water and dry it in the shade.",
    "We repair it free of charge for as long as the shop stands.",
    "Each piece differs a little from the one in the picture.",
)


@dataclass(frozen=True)
class Product:
    """One thing for sale and where its page is."""

    path: str
    sku: str
    name: str
    category: str
    price: str
    text: str


def make_product(number: int, *, path: str = "") -> Product:
    rng = Random(number)
    category = list(CATEGORIES)[number % len(CATEGORIES)]
    name = f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS[category])} No. {number}"
    sku = f"LS-{number:04}"
    price = f"{rng.randrange(300, 25_000) / 100:.2f}"
    text = " ".join(rng.choices(SENTENCES, k=14))
    return Product(path or f"/products/{sku.lower()}", sku=sku, name=name, category=category, price=price, text=text)
