"""All pages of the shop, rendered once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from tests.support.site.products import CATEGORIES, make_product
from tests.support.site.rendering import listing_html, listing_path, page_html, product_html, sitemap_xml

PER_LISTING = 6
PER_SITEMAP = 25
LINK = re.compile(rb'<a[^>]* href="(/[^"#]*)')


class Catalogue:
    """All pages of the shop by path and query."""

    def __init__(self, products: int, *, specials: Sequence[str]) -> None:
        self.products = [make_product(number) for number in range(products)]
        self.specials = [make_product(products + at, path=path) for at, path in enumerate(specials)]
        self.product_paths = [product.path for product in [*self.products, *self.specials]]
        self.pages = self._render()

    def reachable(self) -> set[str]:
        """Follow the links of the pages as they were rendered, from `/`."""
        found, waiting = {"/"}, ["/"]
        while waiting:
            links = {link.decode() for link in LINK.findall(self.pages[waiting.pop()])}
            waiting.extend(links - found)
            found |= links
        return found

    def robots(self, origin: str) -> str:
        return f"User-agent: *\nDisallow: /checkout/\n\nSitemap: {origin}/sitemap.xml\n"

    def sitemap(self, path: str, *, origin: str) -> str | None:
        """The index at /sitemap.xml and its children, or nothing if the path is no sitemap."""
        others = [page for page in self.pages if page not in self.product_paths and not page.startswith("/checkout/")]
        children = {"/sitemaps/pages.xml": others}
        for at in range(0, len(self.product_paths), PER_SITEMAP):
            children[f"/sitemaps/products-{at // PER_SITEMAP + 1}.xml"] = self.product_paths[at : at + PER_SITEMAP]
        if path == "/sitemap.xml":
            return sitemap_xml("sitemapindex", "sitemap", [origin + child for child in children])
        return sitemap_xml("urlset", "url", [origin + page for page in children[path]]) if path in children else None

    def product_names(self) -> dict[str, str]:
        return {product.path: product.name for product in [*self.products, *self.specials]}

    def _render(self) -> dict[str, bytes]:
        specials = "".join(f'<li><a href="{one.path}">{escape(one.name)}</a></li>\n' for one in self.specials)
        welcome = f"<p>Things that hold on.</p>\n<h2>Today only</h2>\n<ul>{specials}</ul>"
        about = (
            '<p id="returns">Send anything back within a month. Write to <a href="mailto:shop@shop.example">us</a> '
            'or read about <a href="https://museum.example/limpets">limpets in the museum</a>.</p>'
        )
        pages = {"/": page_html("The Limpet shop", welcome), "/about": page_html("About us", about)}
        # Nothing links here and robots.txt forbids it: whoever asks for it has guessed.
        pages["/checkout/"] = page_html("Checkout", "<p>Your basket is empty.</p>")
        for category, title in CATEGORIES.items():
            members = [product for product in self.products if product.category == category]
            for at in range(0, max(len(members), 1), PER_LISTING):
                number = at // PER_LISTING + 1
                more = at + PER_LISTING < len(members)
                listing = listing_html(members[at : at + PER_LISTING], category=category, number=number, more=more)
                pages[listing_path(category, number)] = page_html(f"{title}, page {number}", listing)
        for product in [*self.products, *self.specials]:
            pages[product.path] = page_html(product.name, product_html(product))
        return pages
