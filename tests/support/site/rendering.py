"""How the shop's pages look."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from tests.support.site.products import CATEGORIES, SENTENCES, Product


def listing_path(category: str, number: int) -> str:
    return f"/{category}" if number == 1 else f"/{category}?page={number}"


def listing_html(products: Sequence[Product], *, category: str, number: int, more: bool) -> str:
    cards = "".join(
        f'<li class="card"><a href="{one.path}">{escape(one.name)}</a> <b>{one.price} EUR</b></li>\n'
        for one in products
    )
    back = f'<a rel="prev" href="{listing_path(category, number - 1)}">Back</a>' if number > 1 else ""
    on = f'<a rel="next" href="{listing_path(category, number + 1)}">More</a>' if more else ""
    return f'<p>{len(products)} things on this page.</p>\n<ul>{cards}</ul>\n<nav class="pagination">{back} {on}</nav>'


def product_html(product: Product) -> str:
    facts = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": product.name,
        "sku": product.sku,
        "description": product.text,
        "category": CATEGORIES[product.category],
        "brand": {"@type": "Brand", "name": "Limpet"},
        "offers": {
            "@type": "Offer",
            "price": product.price,
            "priceCurrency": "EUR",
            "availability": "https://schema.org/InStock",
        },
    }
    return (
        f'<script type="application/ld+json">{json.dumps(facts)}</script>\n'
        f'<p class="price">{product.price} EUR</p>\n<p>{product.text}</p>\n'
        f'<p>More in <a href="/{product.category}">{CATEGORIES[product.category]}</a>, '
        f'and how to <a href="/about#returns">return it</a>.</p>'
    )


def page_html(title: str, inner: str) -> bytes:
    menu = " ".join(f'<a href="/{category}">{escape(name)}</a>' for category, name in CATEGORIES.items())
    care = "".join(f"<p>{sentence}</p>\n" for sentence in SENTENCES)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
        f"<body>\n"
        f'<nav><a href="/">Home</a> {menu} <a href="/about">About</a></nav>\n<main><h1>{escape(title)}</h1>\n{inner}\n'
        f"</main>\n<footer><h2>How we work</h2>\n{care}</footer>\n</body>\n</html>\n"
    ).encode()


def sitemap_xml(kind: str, entry: str, urls: Sequence[str]) -> str:
    entries = "".join(f"<{entry}><loc>{escape(url)}</loc><lastmod>2025-06-01</lastmod></{entry}>\n" for url in urls)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{kind} xmlns="{space}">\n{entries}</{kind}>\n'
