"""Articles: what they say of themselves for machines first, their text by `trafilatura`. Costs far more than the others."""

from __future__ import annotations

from typing import Any, Final

from limpet.parser.document import Document
from limpet.parser.parsers import Parser, opengraph
from limpet.parser.parsers.jsonld import Graph, blocks, first, nodes_of_type
from limpet.parser.parsers.markup import MICRODATA, items_of_type
from limpet.parser.parsers.values import absolute, images, moment, name, prose, text

MAX_TEXT: Final = 200_000
_SUMMARY: Final = 5_000
# Larger pages than this are no articles; reading them so would take seconds.
MAX_HTML: Final = 3 << 20
_AUTHORS: Final = 20
# A page that does not say that it is an article needs this much text to be one.
_LEAST_TEXT: Final = 250
_TYPES: Final = frozenset(
    {
        "advertisercontentarticle", "analysisnewsarticle", "article", "backgroundnewsarticle", "blogposting", "liveblogposting",
        "newsarticle", "opinionnewsarticle", "report", "reportagenewsarticle", "reviewnewsarticle", "satiricalarticle",
        "scholarlyarticle", "socialmediaposting", "techarticle",
    }
)  # fmt: skip


def extract(document: Document) -> list[dict[str, Any]]:
    """One item, or none where the page holds no running text."""
    found = list(blocks(document.tree))
    graph = Graph(found)
    node = next(nodes_of_type(found, types=_TYPES), None)
    source = "json-ld"
    if node is None:
        node = next(iter(items_of_type(document.tree, MICRODATA, types=_TYPES)), None)
        source = "microdata"
    item = _said(node or {}, graph=graph, page_url=document.url)
    _from_head(item, document)
    markup = document.tree.html or ""
    if len(markup) <= MAX_HTML:
        _from_page(item, markup, document)
    if node is None and len(item["text"] or "") < _LEAST_TEXT:
        return []
    item["source"] = source if node is not None else "heuristic"
    return [item]


def _said(node: dict[str, Any], *, graph: Graph, page_url: str) -> dict[str, Any]:
    get = node.get
    names = [one for value in graph.all(get("author") or get("creator"), limit=_AUTHORS) if (one := name(value))]
    body = text(get("articleBody"), limit=MAX_TEXT)
    return {
        "title": prose(get("headline"), limit=2_000) or prose(get("name"), limit=2_000),
        "author": ", ".join(dict.fromkeys(names)) or None,
        "published": moment(get("datePublished")) or moment(get("dateCreated")),
        "modified": moment(get("dateModified")),
        "language": _language(name(graph.of(first(get("inLanguage"))))),
        "text": body,
        "summary": prose(get("description"), limit=_SUMMARY),
        "images": list(images(get("image") or get("thumbnailUrl"), graph=graph, page_url=page_url)),
        "url": absolute(get("url"), page_url=page_url),
        "source": "",
    }


def _from_head(item: dict[str, Any], document: Document) -> None:
    head = document.head
    tags = opengraph.metas(document)

    def tag(*names: str) -> str | None:
        return next((value for name in names for value in tags.get(name, ())), None)

    root = document.tree.root
    said = (root.attributes.get("lang") if root is not None else None) or head.opengraph.get("locale")
    author = text(tag("article:author"))
    item["title"] = item["title"] or text(tag("og:title", "twitter:title"))
    # A profile's address is no name.
    item["author"] = item["author"] or (author if author and not author.startswith("http") else None)
    item["published"] = item["published"] or moment(tag("article:published_time"))
    item["modified"] = item["modified"] or moment(tag("article:modified_time", "og:updated_time"))
    item["language"] = item["language"] or _language(said)
    item["summary"] = item["summary"] or text(tag("og:description") or head.description, limit=_SUMMARY)
    item["images"] = item["images"] or [
        one for value in tags.get("og:image", ()) if (one := absolute(value, page_url=document.url))
    ]
    item["url"] = item["url"] or absolute(head.canonical or tag("og:url"), page_url=document.url)


def _from_page(item: dict[str, Any], markup: str, document: Document) -> None:
    # Half a second and 40 MB that only those pay who ask for articles.
    import trafilatura
    from trafilatura.metadata import extract_metadata

    read = trafilatura.bare_extraction(
        markup, url=document.url, include_comments=False, include_tables=False, with_metadata=False, fast=True
    )
    if read is not None and not isinstance(read, dict) and read.text:
        # What the page shows is whole; what it says for machines is often cut.
        found = paragraphs(read.text)
        if len(found) >= len(item["text"] or ""):
            item["text"] = found
    if item["title"] is None or item["published"] is None or item["author"] is None:
        guessed = extract_metadata(markup, default_url=document.url)
        item["title"] = item["title"] or text(guessed.title)
        item["author"] = item["author"] or text((guessed.author or "").replace("; ", ", "))
        item["published"] = item["published"] or moment(guessed.date)
    item["title"] = item["title"] or document.head.title or None


def paragraphs(said: str) -> str:
    """A line for each paragraph, without NUL, bounded."""
    lines = (" ".join(line.split()) for line in said[:MAX_TEXT].replace("\x00", "").splitlines())
    return "\n".join(line for line in lines if line).encode("utf-8", "replace").decode("utf-8")


def _language(said: str | None) -> str | None:
    word = (said or "").strip().replace("_", "-").partition("-")[0].lower()
    return word if 2 <= len(word) <= 3 and word.isalpha() and word.isascii() else None


PARSER: Final = Parser(name="article", version="1", page_type="article", extract=extract)
