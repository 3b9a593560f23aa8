"""What the visible text of a page tells: whether another page says the same, nearly the same, or that there is nothing."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from zlib import crc32

import re2
from selectolax.lexbor import LexborHTMLParser, LexborNode

TEXT_BYTES: Final = 1 << 20
EMPTY_WITHIN: Final = 16 << 10
# With so many rows no sum of a column leaves its byte, so that all columns are added up at once.
ROWS: Final = 127
_ONES: Final = int.from_bytes(b"\x01" * 8 * ROWS, "little")
_WORD: Final = (1 << 64) - 1
_SPREAD: Final = 0x9E3779B1
_UNSEEN: Final = "script,style,template,noscript"

# As sites say it, in lower case. Only sentences that speak of the list; "not found" alone is said of pages, too.
_NOTHING: Final = (
    r"\bno (?:matching |more |search )?(?:results|products|items|articles|posts|entries|matches|listings|records)"
    r"(?: (?:were |was |have been )?(?:found|available|to (?:show|display)|match(?:ing|ed)?\b))",
    r"\bno results (?:for|matching|were)\b",
    r"\bno (?:more )?(?:results|products|posts|articles|items)[.!]",
    r"\b(?:found )?0 (?:results|products|items|articles|matches)\b(?: found)?",
    r"\b(?:nothing|no one) (?:was |matched |matches )?(?:found|your (?:search|filters?|criteria))",
    r"\b(?:did not|didn['’]t|could not|couldn['’]t) (?:match|find) any\b",
    r"\bthere (?:are|is) no (?:products|items|results|articles|posts|entries)\b",
    r"\bkeine (?:passenden |weiteren )?(?:ergebnisse|produkte|artikel|treffer|einträge|beiträge|angebote)\b"
    r".{0,30}?(?:gefunden|vorhanden|verfügbar|[.!]|$)",
    r"\bnichts gefunden\b|\bleider nichts\b|\b0 (?:ergebnisse|treffer|artikel|produkte)\b",
    r"\baucun (?:autre )?(?:résultat|produit|article|élément)\b|\b0 (?:résultats?|produits?)\b",
    r"\bno (?:se (?:han encontrado|encontraron|ha encontrado)|hay) (?:más )?(?:ning[uú]n )?(?:resultados?|productos?|artículos?|entradas)\b",
    r"\bno (?:se encontraron|hay) (?:coincidencias|resultados)\b|\bning[uú]n resultado\b|\b0 resultados?\b",
    r"\bnessun (?:risultato|prodotto|articolo)\b|\b0 risultati\b",
    r"\bnenhum (?:resultado|produto|item|artigo)\b|\bnão (?:foram encontrad|há )[^.]{0,12}(?:resultados|produtos)\b",
    r"\bgeen (?:resultaten|producten|artikelen|items)\b",
    r"\bbrak (?:wyników|produktów)\b|\bnie znaleziono\b",
    r"\b(?:inga|ingen) (?:resultat|produkter|träffar|artiklar)\b|\bei (?:tuloksia|hakutuloksia)\b",
    r"ничего не найдено|нет (?:результатов|товаров)|не найдено (?:товаров|результатов)|нічого не знайдено",
    r"sonuç bulunamadı|ürün bulunamadı|žádné (?:výsledky|produkty)|nincs találat",
    r"没有(?:找到|搜索到|相关|更多)[^。]{0,12}(?:结果|商品|产品|内容)|暂无(?:数据|商品|结果|内容)|沒有(?:找到|符合)",
    r"(?:検索結果|該当する(?:商品|結果|データ|記事))(?:は|が)(?:ありません|見つかりません)|見つかりませんでした",
    r"검색 ?결과가 없습니다|상품이 없습니다|لا توجد (?:نتائج|منتجات)|לא נמצאו|कोई परिणाम नहीं",
)
_SAYS_NOTHING: Final = re2.compile("(?i)" + "|".join(f"(?:{one})" for one in _NOTHING))
# How deep and wide the sentence is looked for; beyond that it counts as seen.
_STEPS: Final = 64
_HIDING: Final = ("display:none", "visibility:hidden")


@dataclass(frozen=True, slots=True)
class TextFacts:
    # 8 bytes; empty where there is no text.
    fingerprint: bytes = b""
    simhash: int = 0
    says_empty: bool = False


NO_TEXT: Final = TextFacts()


def read_text(tree: LexborHTMLParser, *, lists_nothing: bool) -> TextFacts:
    """Takes from the tree what nobody sees, so it comes last. `lists_nothing` is what the page's items and links say."""
    body = tree.body
    if body is None:
        return NO_TEXT
    for node in body.css(_UNSEEN):
        node.decompose()
    text = body.text(separator="\n", skip_empty=True).encode("utf-8", "replace")[:TEXT_BYTES]
    lines = list(filter(None, map(bytes.strip, text.split(b"\n"))))
    if not lines:
        return NO_TEXT
    sums = array("I", map(crc32, lines))
    empty = lists_nothing and any(_is_seen(body, said) for said in _says_nothing(lines))
    return TextFacts(blake2b(sums.tobytes(), digest_size=8).digest(), simhash(sums), empty)


def simhash(features: Iterable[int]) -> int:
    """64 bits, each what most features say. Of many features the least ones count: which they are, a few more do not change."""
    rows: Collection[int] = set(features)
    if len(rows) > ROWS:
        rows = sorted(rows)[:ROWS]
    table = int.from_bytes(array("Q", rows).tobytes(), sys.byteorder) * _SPREAD
    # A number is, modulo 2^64 - 1, the sum of its 64-bit digits: here of eight columns at once, each in its byte.
    raised = int.from_bytes(bytes([127 - len(rows) // 2]) * 8, "little")
    bits = 0
    for shift in range(8):
        sums = ((table >> shift) & _ONES) % _WORD
        bits |= (((sums + raised) >> 7) & 0x0101010101010101) << shift
    return bits


def _says_nothing(lines: list[bytes]) -> Iterator[str]:
    text = b"\n".join(lines)[:EMPTY_WITHIN].decode("utf-8", "ignore")
    for number, found in enumerate(_SAYS_NOTHING.finditer(text)):
        if number == 3:
            return
        yield found[0]


def _is_seen(body: LexborNode, said: str) -> bool:
    """Many shops carry the sentence in an overlay that nobody has opened."""
    words = said.strip().lower()
    waiting = [body]
    for _ in range(_STEPS):
        if not waiting:
            return False
        inner = [node for node in waiting.pop().iter() if words in node.text().lower()]
        if not inner:
            return True
        waiting += [node for node in inner if not _is_hidden(node)]
    return True


def _is_hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    style = (attributes.get("style") or "").replace(" ", "").lower()
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or node.tag == "dialog"
        or any(one in style for one in _HIDING)
    )
