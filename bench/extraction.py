"""`python -m bench.extraction FOLDER`: how much of labelled public material the parsers get right.

The material is not ours and not here: put into the folder what there is of
- `*examples.txt` of schema.org: the same thing said in microdata, RDFa and JSON;
- `test_price_parsing.py` of price-parser: prices as people write them, with what they mean (read, never run);
- `NAME.html` with `NAME.expected.json`: a list of items, each with the fields that matter."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import orjson

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.parsers.currency import currency
from limpet.parser.parsers.jsonld import first, loads, nodes_of_type
from limpet.parser.parsers.price import price_of
from limpet.parser.reading import Reading, read_page

URL = "https://shop.test/a/page"
SECTION = re.compile(r"^(TYPES|PRE-MARKUP|MICRODATA|RDFA|JSON):", re.MULTILINE)
SCRIPT = re.compile(r"<script[^>]*ld\+json[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
PRODUCTS = frozenset({"product", "productgroup", "individualproduct", "productmodel", "vehicle", "car", "book"})
FIELDS = ("name", "brand", "sku", "gtin", "mpn", "price", "price_high", "currency", "availability", "condition", "images", "rating",
          "rating_count", "description", "url")  # fmt: skip


class Score:
    def __init__(self) -> None:
        self.right: dict[str, Counter[str]] = defaultdict(Counter)
        self.asked: dict[str, Counter[str]] = defaultdict(Counter)
        self.wrong: list[str] = []

    def add(self, group: str, field: str, *, found: Any, label: Any, where: str) -> None:
        self.asked[group][field] += 1
        if found == label:
            self.right[group][field] += 1
        else:
            self.wrong.append(f"{group} {field} of {where}: {found!r:.150} is not {label!r:.150}")

    def print(self, *, wrong: bool) -> None:
        print(f"{'':34} {'right':>6} {'of':>6}")
        for group, asked in self.asked.items():
            for field, count in asked.items():
                print(f"{group:20} {field:13} {self.right[group][field]:>6} {count:>6}")
        right, of = (sum(sum(one.values()) for one in each.values()) for each in (self.right, self.asked))
        print(f"{'all':34} {right:>6} {of:>6}   {100 * right / max(of, 1):.1f} %")
        if wrong:
            print("\n".join(self.wrong))


def items_of(html: str, *, parser: str = "product") -> list[dict[str, Any]]:
    found = read_page(PageFetched(url=URL, parser=parser, content_type="text/html"), html.encode())
    return [orjson.loads(item) for item in found.items] if isinstance(found, Reading) else []


def of_schema_org(path: Path, score: Score) -> None:
    for example in re.split(r"^(?=TYPES:)", path.read_text(errors="replace"), flags=re.MULTILINE):
        said = SECTION.split(example)
        parts = dict(zip(said[1::2], said[2::2], strict=False))
        where = parts.get("TYPES", "").strip().split(",")[0]
        labels = [one for text in SCRIPT.findall(parts.get("JSON", "")) for one in _plainly(loads(text))]
        if not labels:
            continue
        for section, group in (("JSON", "json-ld"), ("MICRODATA", "microdata"), ("RDFA", "rdfa")):
            if not re.search(r"itemtype|typeof|ld\+json", parts.get(section, "")):
                continue
            found = {item["name"]: item for item in items_of(parts[section])}
            for label in labels:
                item = found.get(label["name"], {})
                for field, value in label.items():
                    score.add(
                        f"schema.org {group}", field, found=_told(item.get(field)), label=_told(value), where=where
                    )


def _plainly(value: Any) -> Iterator[dict[str, Any]]:
    """What an example says of a product, taken out of its JSON with none of the parser's rules but where products are."""
    for node in nodes_of_type(value, types=PRODUCTS):
        if not isinstance(node.get("name"), str):
            continue
        offer = first(node.get("offers"))
        offer = offer if isinstance(offer, dict) else {}
        rating = node.get("aggregateRating") if isinstance(node.get("aggregateRating"), dict) else {}
        label = {
            "name": " ".join(node["name"].split()),
            "price": offer.get("price") or offer.get("lowPrice"),
            "price_high": offer.get("highPrice"),
            "currency": offer.get("priceCurrency"),
            "availability": {"InStock": "in_stock"}.get(str(offer.get("availability")).rpartition("/")[2]),
            "rating": rating.get("ratingValue") if rating and str(rating.get("bestRating", 5)) == "5" else None,
            "rating_count": rating.get("ratingCount") or rating.get("reviewCount") if rating else None,
            "description": node.get("description") if isinstance(node.get("description"), str) else None,
        }
        yield {field: text for field, text in label.items() if text is not None}


def _told(value: Any) -> Any:
    """Numbers by their value, prices without their sign, text by its words."""
    if isinstance(value, str) and (amount := re.fullmatch(r"\$(\d+)|(\d+) p\.", value)):
        value = amount[1] or amount[2]
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return Decimal(str(value))
        except InvalidOperation:
            return " ".join(str(value).split())
    return value


def of_prices(path: Path, score: Score) -> None:
    for call in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Example"):
            continue
        _, raw, sign, _, amount = (_literal(one) for one in call.args[:5])
        if raw is None:
            continue
        found = price_of(raw)
        label = None if amount is None else Decimal(str(amount))
        score.add("price-parser", "price", found=Decimal(found.low) if found else None, label=label, where=repr(raw))
        # Whose sign it is does not matter where the text does not hold it.
        if sign and sign in raw and label is not None and (code := currency(sign)):
            score.add("price-parser", "currency", found=found.currency if found else None, label=code, where=repr(raw))


def _literal(node: ast.expr) -> Any:
    return ast.literal_eval(node.args[0] if isinstance(node, ast.Call) else node)


def of_pages(path: Path, score: Score) -> None:
    labels = json.loads(path.with_name(f"{path.stem}.expected.json").read_text())
    found = items_of(path.read_text(errors="replace"))
    score.add("pages", "items", found=len(found), label=len(labels), where=path.name)
    for item, label in zip(found, labels, strict=False):
        for field, value in label.items():
            score.add("pages", field, found=item.get(field), label=value, where=path.name)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.extraction", description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--wrong", action="store_true", help="name each that is not right")
    given = options.parse_args()
    score = Score()
    for path in sorted(given.folder.rglob("*")):
        if path.name.endswith("examples.txt"):
            of_schema_org(path, score)
        elif path.name == "test_price_parsing.py":
            of_prices(path, score)
        elif path.suffix == ".html" and path.with_name(f"{path.stem}.expected.json").exists():
            of_pages(path, score)
    score.print(wrong=given.wrong)


if __name__ == "__main__":
    main()
