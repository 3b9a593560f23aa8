"""Lists of things: what the page lists for machines, else the cards that repeat in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from selectolax.lexbor import LexborNode

from limpet.parser.document import Document
from limpet.parser.pagefacts import clean
from limpet.parser.parsers import Parser
from limpet.parser.parsers.jsonld import Graph, blocks, first, nodes_of_type
from limpet.parser.parsers.offers import Offers, read_offers
from limpet.parser.parsers.price import Price, price_of
from limpet.parser.parsers.product import at_home
from limpet.parser.parsers.values import absolute, images, name, prose, text

MAX_ITEMS: Final = 500
_LEAST: Final = 3
_LINKS: Final = 5_000
_CLIMB: Final = 6
_JUDGED: Final = 12
_SAMPLE: Final = 8
_NODES: Final = 150
_TITLE: Final = 300
_LISTS: Final = frozenset({"itemlist", "offercatalog", "productcollection"})
_THINGS: Final = frozenset(
    {"product", "productgroup", "article", "newsarticle", "blogposting", "event", "recipe", "jobposting", "book"}
)
_MENUS: Final = frozenset({"nav", "header", "footer", "aside"})
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


def extract(document: Document) -> list[dict[str, Any]]:
    return _listed(document) or _repeated(document)


def _listed(document: Document) -> list[dict[str, Any]]:
    found = list(blocks(document.tree))
    if not found:
        return []
    graph = Graph(found)
    entries: list[Any] = []
    for one in nodes_of_type(found, types=_LISTS):
        inside = graph.all(one.get("itemListElement") or one.get("item"), limit=MAX_ITEMS)
        # A page may list other things beside what it is about; that is the longest.
        entries = inside if len(inside) > len(entries) else entries
    if not entries:
        things = list(islice(nodes_of_type(found, types=_THINGS), MAX_ITEMS))
        entries = things if len(things) >= _LEAST else []
    country = at_home(document)
    items = (_entry(one, graph=graph, page_url=document.url, country=lambda: country) for one in entries)
    return _numbered([item for item in items if item is not None])


def _entry(value: Any, *, graph: Graph, page_url: str, country: Callable[[], str]) -> dict[str, Any] | None:
    if isinstance(value, str):
        value = {"url": value} if value.startswith(("http://", "https://", "/")) else {"name": value}
    if not isinstance(value, dict):
        return None
    inner = graph.of(first(value.get("item")))
    thing = inner if isinstance(inner, dict) else {"url": inner} if inner else value
    made = thing.get("offers")
    offers = read_offers(made, graph=graph, country=country) if made is not None else Offers()
    price = Price(offers.price, offers.price_high, offers.currency) if offers.price else None
    url = absolute(thing.get("url") or value.get("url") or offers.url or thing.get("@id"), page_url=page_url)
    return _item(
        title=prose(thing.get("headline"), limit=_TITLE) or prose(thing.get("name"), limit=_TITLE) or name(value),
        url=url,
        price=price,
        image=next(images(thing.get("image") or value.get("image"), graph=graph, page_url=page_url), None),
        source="json-ld",
    )


def _item(
    *, title: str | None, url: str | None, price: Price | None, image: str | None, source: str
) -> dict[str, Any] | None:
    if title is None and url is None:
        return None
    return {
        "name": title,
        "url": url,
        "price": price.low if price else None,
        "price_high": price.high if price else None,
        "currency": price.currency if price else None,
        "image": image,
        "position": 0,
        "source": source,
    }


def _numbered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each once, counted from one."""
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for item in items:
        kept.setdefault((item["url"],) if item["url"] else (None, item["name"]), item)
    for position, item in enumerate(kept.values(), start=1):
        item["position"] = position
    return list(kept.values())


@dataclass(slots=True)
class _Group:
    """Elements of one kind under one parent, with a link in each."""

    cards: dict[int, LexborNode] = field(default_factory=dict)
    in_menu: bool = False


@dataclass(frozen=True, slots=True)
class _Card:
    title: str
    href: str
    price: Price | None
    image: str
    headed: bool


def _repeated(document: Document) -> list[dict[str, Any]]:
    country = at_home(document)
    groups = sorted(_groups(document).values(), key=lambda group: -len(group.cards))[: _JUDGED * 2]
    best: _Group | None = None
    score = 0.0
    for group in groups[:_JUDGED]:
        if len(group.cards) >= _LEAST and (here := _score(group, country=country)) > score:
            best, score = group, here
    if best is None:
        return []
    items = []
    for node in islice(best.cards.values(), MAX_ITEMS):
        card = _card(node, country=country)
        url = absolute(card.href, page_url=document.url) if card is not None else None
        if card is None or url is None:
            continue
        item = _item(
            title=text(card.title, limit=_TITLE),
            url=url,
            price=card.price,
            image=absolute(card.image, page_url=document.url) if card.image else None,
            source="heuristic",
        )
        if item is not None:
            items.append(item)
    return _numbered(items)


def _groups(document: Document) -> dict[tuple[int, str, str], _Group]:
    groups: dict[tuple[int, str, str], _Group] = {}
    for link in islice(document.tree.tags("a"), _LINKS):
        href = link.attributes.get("href")
        if not href or href.startswith(("#", "javascript:", "mailto:", "tel:")):
            continue
        node: LexborNode | None = link
        for _ in range(_CLIMB):
            parent = node.parent if node is not None else None
            if node is None or parent is None or node.tag in ("body", "html"):
                break
            classes = (node.attributes.get("class") or "").split(maxsplit=1)
            key = (parent.mem_id, node.tag or "", classes[0][:80] if classes else "")
            group = groups.get(key)
            if group is None:
                groups[key] = group = _Group(in_menu=_in_menu(parent))
            if len(group.cards) <= MAX_ITEMS:
                group.cards.setdefault(node.mem_id, node)
            node = parent
    return groups


def _in_menu(node: LexborNode | None) -> bool:
    for _ in range(_CLIMB):
        if node is None:
            return False
        attributes = node.attributes
        said = f"{attributes.get('class') or ''} {attributes.get('role') or ''}".lower()
        if node.tag in _MENUS or any(word in said for word in ("menu", "nav", "breadcrumb", "paginat", "footer")):
            return True
        node = node.parent
    return False


def _score(group: _Group, *, country: str) -> float:
    cards = [_card(node, country=country) for node in islice(group.cards.values(), _SAMPLE)]
    told = [card for card in cards if card is not None and len(card.title) >= 3]
    if len(told) < _LEAST or len({card.href for card in told}) < _LEAST:
        return 0.0
    shares = sum(1.5 * bool(card.price) + bool(card.image) + card.headed for card in told) / len(told)
    length = sum(min(len(card.title), 80) for card in told) / len(told) / 40
    each = (0.5 + length + shares) * len(told) / len(cards)
    return float(min(len(group.cards), 100) ** 0.5 * each * (0.15 if group.in_menu else 1.0))


def _card(node: LexborNode, *, country: str) -> _Card | None:
    """One walk through what is in it."""
    links: dict[str, str] = {}
    heading = image = alt = ""
    price: Price | None = None
    for one in _within(node):
        tag = one.tag
        attributes = one.attributes
        if tag == "a" and (href := attributes.get("href")):
            said = clean(_text(one)) or clean(attributes.get("title") or attributes.get("aria-label"))
            if len(said) > len(links.get(href, "")) or href not in links:
                links[href] = said
        elif tag == "img" and not image:
            source = attributes.get("data-src") or attributes.get("src") or ""
            image = source if not source.startswith("data:") else ""
            alt = clean(attributes.get("alt"))
        elif tag in _HEADINGS and not heading:
            heading = clean(_text(one))
        if price is None and tag not in ("a", "del", "s"):
            said = attributes.get("class") or ""
            if "price" in said.lower() or attributes.get("itemprop") == "price":
                price = _priced(one, country=country)
    if not links:
        return None
    href = next((href for href, said in links.items() if heading and said and (said in heading or heading in said)), "")
    href = href or max(links, key=lambda one: len(links[one]))
    return _Card(
        title=(heading or links[href] or alt)[:_TITLE],
        href=href,
        price=price or _bare_price(node, country=country),
        image=image,
        headed=bool(heading),
    )


def _priced(node: LexborNode, *, country: str) -> Price | None:
    found = price_of(clean(_text(node)) or node.attributes.get("content") or "", country=country)
    if found is None or found.currency is not None or node.parent is None:
        return found
    # The currency often stands beside the number.
    beside = price_of(clean(_text(node.parent))[:40], country=country)
    return Price(found.low, found.high, beside.currency) if beside and beside.low == found.low else found


def _bare_price(node: LexborNode, *, country: str) -> Price | None:
    """A short piece of text with an amount and a currency in it."""
    for one in islice(node.traverse(include_text=True), _NODES):
        if one.tag == "-text":
            piece = clean(one.text_content)
            if 2 <= len(piece) <= 30 and any(sign.isdecimal() for sign in piece):
                found = price_of(piece, country=country)
                if found is not None and found.currency is not None:
                    return found
    return None


def _within(node: LexborNode) -> Iterator[LexborNode]:
    return islice(node.traverse(include_text=False), _NODES)


def _text(node: LexborNode) -> str:
    pieces, length = [], 0
    for one in islice(node.traverse(include_text=True), 40):
        if one.tag == "-text":
            piece = (one.text_content or "")[:_TITLE]
            pieces.append(piece)
            length += len(piece)
            if length >= _TITLE:
                break
    return " ".join(pieces)


PARSER: Final = Parser(name="listing", version="1", page_type="listing", extract=extract)
