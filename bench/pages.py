"""The generated site: product pages of about 43 KB with 80 links and JSON-LD, the same for every run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

CATEGORIES = 12
RELATED = 67
TAILS = 64
VOCABULARY = (
    "anchor barnacle beacon bollard brass buoy cable capstan chart cleat compass coral current deck dock drift eddy "
    "ferry fathom fender foam galley gannet harbour hatch hull inlet jetty keel kelp ketch lagoon lantern limpet "
    "mainsail mast mooring mussel oar oyster pebble pier pilot quay reef rigging rope rudder sail salt sand schooner "
    "seal shell shingle shoal skiff sounding spar spray squall stern surf tackle tide tiller trawl wake whelk winch"
)
WORDS = VOCABULARY.split()


@dataclass(frozen=True)
class Page:
    """A response in two parts: what is this page's own, and a tail that many pages share to save memory."""

    own: bytes
    tail: bytes


def make_pages(count: int) -> dict[bytes, Page]:
    """All pages of the site by path: `/`, the categories and the products; each is reachable from `/`."""
    rng = Random(2026)
    tails = [_reviews(rng) for _ in range(TAILS)]
    names = [" ".join(rng.sample(WORDS, 4)).title() for _ in range(count)]
    prices = [f"{rng.randrange(199, 99_999) / 100:.2f}" for _ in range(count)]
    pages = {b"/": _response(_document("Bench", _menu()), b"")}
    for category in range(CATEGORIES):
        members = range(category, count, CATEGORIES)
        links = "".join(f'<li><a href="{product_path(one)}">{names[one]}</a></li>\n' for one in members)
        pages[f"/c/{category}".encode()] = _response(_document(f"Category {category}", f"<ul>{links}</ul>"), b"")
    for number in range(count):
        related = rng.sample(range(count), min(RELATED, count))
        own = _product(number, names=names, prices=prices, related=related, rng=rng)
        pages[product_path(number).encode()] = _response(_document(names[number], own), tails[number % TAILS])
    return pages


def list_paths() -> list[str]:
    """The pages that hold no product: the front page and the categories."""
    return ["/", *(f"/c/{category}" for category in range(CATEGORIES))]


def product_path(number: int) -> str:
    return f"/p/{number}"


def _response(start: bytes, tail: bytes) -> Page:
    length = len(start) + len(tail)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\r\n"
    return Page(head.encode() + start, tail)


def _document(title: str, inner: str) -> bytes:
    # The tail, where there is one, closes the document; parsers do not mind the rest without.
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="description" content="{title} from the bench"></head>\n<body>\n{_menu()}<h1>{title}</h1>\n{inner}'
    ).encode()


def _menu() -> str:
    links = "".join(f'<li><a href="/c/{category}">Category {category}</a></li>' for category in range(CATEGORIES))
    return f'<nav><a href="/">Home</a><ul class="menu">{links}</ul></nav>\n'


def _product(number: int, *, names: list[str], prices: list[str], related: list[int], rng: Random) -> str:
    facts = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": names[number],
        "sku": f"B-{number:06}",
        "description": _text(rng, 60),
        "brand": {"@type": "Brand", "name": rng.choice(WORDS).title()},
        "offers": {
            "@type": "Offer",
            "price": prices[number],
            "priceCurrency": "EUR",
            "availability": "https://schema.org/InStock",
        },
    }
    rows = "".join(f"<tr><th>{word}</th><td>{word} and {number}</td></tr>\n" for word in rng.sample(WORDS, 40))
    cards = "".join(
        f'<article class="card"><h3><a href="{product_path(one)}">{names[one]}</a></h3>'
        f'<span class="price">{prices[one]}</span> <span class="unit">EUR</span></article>\n'
        for one in related
    )
    return (
        f'<script type="application/ld+json">{json.dumps(facts)}</script>\n<p class="price">{prices[number]} EUR</p>\n'
        f'<table class="facts">{rows}</table>\n<section class="related">{cards}</section>\n'
    )


def _reviews(rng: Random) -> bytes:
    reviews = "".join(
        f'<div class="review"><h4>{_text(rng, 5)}</h4><p>{_text(rng, 80)}</p><p>{_text(rng, 40)}</p></div>\n'
        for _ in range(36)
    )
    return f'<section class="reviews">{reviews}</section>\n</body></html>\n'.encode()


def _text(rng: Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."
