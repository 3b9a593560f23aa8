"""Which link of a list's page leads on and which leads back: by what the page says of it, the clearest sign first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from selectolax.lexbor import LexborNode

from limpet.contracts.events.v1.parse_pb2 import LinkRel

NEXT, PREV = LinkRel.LINK_REL_NEXT, LinkRel.LINK_REL_PREV
# How clear a sign is. A double arrow leads to the last page where a single one leads to the next.
BY_HEAD, BY_REL, BY_WORD, BY_ARROW, BY_DOUBLE_ARROW = 5, 4, 3, 2, 1
LONGEST: Final = 40

_RELS: Final = {"next": NEXT, "prev": PREV, "previous": PREV}
_ARROWS: Final = {
    **dict.fromkeys("›→>▶►❯⟩➔➜▸", (NEXT, BY_ARROW)),
    **dict.fromkeys("‹←<◀◄❮⟨◂", (PREV, BY_ARROW)),
    **dict.fromkeys(("»", ">>", "››"), (NEXT, BY_DOUBLE_ARROW)),
    **dict.fromkeys(("«", "<<", "‹‹"), (PREV, BY_DOUBLE_ARROW)),
}
_ONWARD: Final = """
    next|next page|go to next page|next results|older|older posts|older entries|more results|show next
    weiter|nächste|nächste seite|zur nächsten seite|nächste ergebnisse|ältere beiträge|vor
    suivant|suivante|page suivante|suiv.|suiv|articles plus anciens
    siguiente|página siguiente|siguiente página|pagina siguiente|sig.|entradas anteriores
    successiva|successivo|avanti|pagina successiva|prossima|prossima pagina
    próxima|próximo|próxima página|seguinte|página seguinte|avançar
    volgende|volgende pagina|następna|następny|następna strona|dalej|další|další strana|ďalšia|următoarea|következő
    nästa|nästa sida|neste|neste side|næste|næste side|seuraava|sonraki|sonraki sayfa|ileri|επόμενη|επόμενο
    следующая|следующая страница|вперед|вперёд|далее|след.|наступна|далі|следваща
    下一页|下一頁|下页|次へ|次のページ|次|다음|다음 페이지|التالي|الصفحة التالية|הבא|अगला|ถัดไป|trang sau|tiếp|berikutnya|selanjutnya
"""
_BACK: Final = """
    prev|prev.|previous|previous page|go to previous page|newer|newer posts|newer entries|show previous
    zurück|vorige|vorherige|vorherige seite|zur vorherigen seite|neuere beiträge
    précédent|précédente|page précédente|préc.|préc|anterior|página anterior|entradas más recientes
    precedente|indietro|pagina precedente|vorige pagina|poprzednia|poprzedni|poprzednia strona|předchozí
    föregående|forrige|edellinen|önceki|önceki sayfa|geri|προηγούμενη|предыдущая|предыдущая страница|назад|пред.|попередня
    上一页|上一頁|上页|前へ|前のページ|前|이전|이전 페이지|السابق|הקודם|पिछला|ก่อนหน้า|trang trước|sebelumnya
"""


def _table() -> Mapping[str, tuple[LinkRel.ValueType, int]]:
    words = {
        word.strip(): (rel, BY_WORD)
        for rel, said in ((NEXT, _ONWARD), (PREV, _BACK))
        for line in said.split("\n")
        for word in line.split("|")
        if word.strip()
    }
    return {**words, **_ARROWS}


_SIGNS: Final = _table()
_DECORATION: Final = " \t\r\n\xa0›→>▶►❯⟩➔➜▸‹←<◀◄❮⟨◂»«…."
_WRAPPERS: Final = frozenset({"span", "i", "b", "em", "strong", "svg"})
_LABELS: Final = ("aria-label", "title")


@dataclass(slots=True)
class Neighbours:
    """At most one link leads on and one leads back."""

    page_url: str
    best: dict[LinkRel.ValueType, tuple[int, str]] = field(default_factory=dict)

    def hear(self, url: str, rel: LinkRel.ValueType, strength: int) -> None:
        """Of equal signs the first one holds. A page does not lead on to itself."""
        if url != self.page_url and self.best.get(rel, (0, ""))[0] < strength:
            self.best[rel] = (strength, url)

    def rels(self) -> dict[str, LinkRel.ValueType]:
        """A link that is said to be both is neither."""
        found = {url: rel for rel, (_, url) in self.best.items()}
        return found if len(found) == len(self.best) else {}


def named(rel: str) -> LinkRel.ValueType:
    """By the words of a rel attribute."""
    for word in rel.lower().split():
        if word in _RELS:
            return _RELS[word]
    return LinkRel.LINK_REL_UNSPECIFIED


def shown(node: LexborNode, attributes: Mapping[str, str | None]) -> tuple[LinkRel.ValueType, int] | None:
    """By what people read: its text, what wraps its text, or the label it has for those who do not see it."""
    text = node.text(deep=False).strip()
    # Most links have a text of their own, and most of them are too long to be a sign.
    if not text:
        text = _wrapped(node)
    sign = _sign(text) if len(text) <= LONGEST else None
    for label in _LABELS:
        if label in attributes and (sign is None or sign[1] < BY_WORD):
            sign = _sign((attributes[label] or "")[: LONGEST + 1]) or sign
    return sign


def _wrapped(node: LexborNode) -> str:
    first = node.first_child
    while first is not None and not first.is_element_node:
        first = first.next
    if first is None or first.tag not in _WRAPPERS:
        return ""
    second = first.next
    texts = [first.text(deep=False)]
    if second is not None and second.is_element_node:
        texts.append(second.text(deep=False))
    return " ".join(texts).strip()


def _sign(text: str) -> tuple[LinkRel.ValueType, int] | None:
    word = text.lower()
    return _SIGNS.get(word) or _SIGNS.get(word.strip(_DECORATION))
