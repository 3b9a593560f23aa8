"""P5: what a page tells beside its items: which link leads on, its own address, its text, and that there is nothing."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel
from limpet.parser.reading import Reading, read_page
from limpet.parser.textfacts import NO_TEXT, ROWS, TextFacts, read_text, simhash

URL = "https://shop.test/list?page=4"
NEXT, PREV, NONE = LinkRel.LINK_REL_NEXT, LinkRel.LINK_REL_PREV, LinkRel.LINK_REL_UNSPECIFIED
PRODUCT = '<script type="application/ld+json">{"@type":"Product","name":"Boots"}</script>'


def read(html: str, *, follow: bool = True, parser: str = "generic", url: str = URL) -> Reading:
    found = read_page(PageFetched(url=url, parser=parser, content_type="text/html", follow=follow), html.encode())
    assert isinstance(found, Reading)
    return found


def rels(html: str) -> dict[str, LinkRel.ValueType]:
    return {link.url.removeprefix("https://shop.test"): link.rel for link in read(html).links if link.rel}


@pytest.mark.parametrize(
    "link",
    [
        "<a rel=next href=/n>5</a>",
        "<a rel='nofollow NEXT' href=/n>5</a>",
        "<a href=/n>next</a>",
        "<a href=/n> Next\n </a>",
        "<a href=/n>Next page »</a>",
        "<a href=/n>›</a>",
        "<a href=/n>&raquo;</a>",
        "<a href=/n>&gt;</a>",
        "<a href=/n>Weiter</a>",
        "<a href=/n>Nächste Seite ›</a>",
        "<a href=/n>Suivant</a>",
        "<a href=/n>Siguiente →</a>",
        "<a href=/n>Próxima</a>",
        "<a href=/n>Successiva</a>",
        "<a href=/n>Volgende</a>",
        "<a href=/n>Następna</a>",
        "<a href=/n>Следующая</a>",
        "<a href=/n>下一页</a>",
        "<a href=/n>次へ</a>",
        "<a href=/n>Older posts</a>",
        "<a href=/n><span>Next</span></a>",
        "<a href=/n><span aria-hidden=true>»</span><span class=sr-only>Next</span></a>",
        "<a href=/n aria-label='Next page'><svg></svg></a>",
        "<a href=/n title=Next><i class=icon></i></a>",
        "<a href=/n aria-label=Next>→</a>",
    ],
)
def test_p5_the_link_that_leads_on_is_known_by_rel_word_arrow_or_label(link: str) -> None:
    assert rels(f"<a href=/a>About</a>{link}<a href=/b>Nextcloud</a>") == {"/n": NEXT}


@pytest.mark.parametrize(
    "text", ["prev", "« Previous", "‹", "Zurück", "Précédent", "Anterior", "上一页", "Назад", "Newer posts"]
)
def test_p5_the_link_that_leads_back_is_known_as_well(text: str) -> None:
    assert rels(f"<a href=/p>{text}</a><a href=/n>Next</a>") == {"/p": PREV, "/n": NEXT}


@pytest.mark.parametrize(
    ("html", "found"),
    [
        # The clearest sign wins, and of equal ones the first.
        ("<a href=/last>»</a><a href=/n>›</a>", {"/n": NEXT}),
        ("<a href=/slide>›</a><a href=/n>Next</a>", {"/n": NEXT}),
        ("<a href=/slide>Next</a><a rel=next href=/n>5</a>", {"/n": NEXT}),
        ("<head><link rel=next href=/n></head><a rel=next href=/other>5</a>", {"/n": NEXT}),
        ("<a href=/n>Next</a><a href=/m>Next</a>", {"/n": NEXT}),
        # A list leads neither to itself nor both ways at once.
        (f"<a rel=next href='{URL}'>4</a><a href=/n>›</a>", {"/n": NEXT}),
        ("<a href=/n>Next</a><a href=/n>Previous</a>", {}),
        # Nor does what has no address.
        ("<a href='#'>Next</a><a href='javascript:go()'>Next</a><a>Next</a>", {}),
        ("<a href=/n>Next year we will sell boots again, read all about it</a>", {}),
    ],
)
def test_p5_at_most_one_link_leads_on(html: str, found: dict[str, LinkRel.ValueType]) -> None:
    assert rels(html) == found


def test_p5_a_link_that_leads_on_is_pagination_unless_it_leads_to_an_item() -> None:
    def kinds(html: str) -> list[tuple[LinkKind.ValueType, LinkRel.ValueType]]:
        return [(link.kind, link.rel) for link in read(html).links]

    assert kinds("<a href=/list?after=abc>Next</a>") == [(LinkKind.LINK_KIND_PAGINATION, NEXT)]
    assert kinds("<a href=/product/hat>Next</a>") == [(LinkKind.LINK_KIND_ITEM, NEXT)]


def test_p5_words_are_read_only_where_somebody_follows() -> None:
    found = read("<a href=/n>Next</a><p>No results found.</p>", follow=False)
    assert (found.links, found.text) == ([], NO_TEXT)


@pytest.mark.parametrize(
    ("head", "canonical"),
    [
        ("<link rel=canonical href=/list>", "https://shop.test/list"),
        ("<link rel=canonical href='https://www.shop.test/list#top'>", "https://www.shop.test/list"),
        ("<base href=/x/><link rel='canonical nofollow' href=y>", "https://shop.test/x/y"),
        ("<link rel=canonical href='javascript:x'>", ""),
        ("<link rel=canonical href=''>", ""),
        ("<link rel=canonical>", ""),
        ("<title>none</title>", ""),
    ],
)
@pytest.mark.parametrize("follow", [True, False])
def test_p5_the_address_a_page_names_as_its_own_is_absolute(head: str, canonical: str, follow: bool) -> None:
    assert read(f"<head>{head}</head>", follow=follow).canonical_url == canonical


def text_of(html: str) -> TextFacts:
    return read(html).text


def test_p5_pages_that_say_the_same_have_one_fingerprint_whatever_nobody_sees() -> None:
    first = text_of("<nav>Shop</nav><script>var nonce = 1</script><style>a{}</style><p>Boots</p>\n<p>Hats</p>")
    same = text_of("<nav  class=x>Shop</nav>\n\n<p> Boots\t</p><p>Hats</p><script>var nonce = 2</script><!-- 17:02 -->")
    other = text_of("<nav>Shop</nav><p>Boots</p><p>Hat</p>")
    moved = text_of("<nav>Shop</nav><p>Hats</p><p>Boots</p>")
    assert len(first.fingerprint) == 8
    assert first == same
    assert len({first.fingerprint, other.fingerprint, moved.fingerprint}) == 3


def test_p5_a_fingerprint_stays_the_same_from_process_to_process() -> None:
    assert text_of("<p>Boots</p>").fingerprint.hex() == "7ad4073421ee22be"


def test_p5_a_page_without_text_has_no_fingerprint() -> None:
    assert text_of("<img src=x><script>x()</script>") == NO_TEXT
    assert text_of("") == NO_TEXT


def lines(*numbers: int) -> str:
    return "".join(f"<li>Product number {number}</li>" for number in numbers)


def distance(one: str, other: str) -> int:
    return (text_of(one).simhash ^ text_of(other).simhash).bit_count()


@pytest.mark.parametrize("size", [40, 100, 600])
def test_p5_similar_pages_differ_in_few_bits_and_others_in_many(size: int) -> None:
    page = lines(*range(size))
    assert distance(page, page) == 0
    assert distance(page, lines(*range(size)) + "<p>17:02</p>") <= 8
    assert distance(page, lines(*range(1, size))) <= 8
    assert distance(page, lines(*range(10_000, 10_000 + size))) >= 16


@settings(deadline=None, max_examples=50)
@given(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=ROWS))
def test_p5_each_bit_of_a_simhash_is_what_most_features_say(features: set[int]) -> None:
    spread = [feature * 0x9E3779B1 for feature in features]
    bits = (sum(value >> bit & 1 for value in spread) > len(spread) // 2 for bit in range(64))
    assert simhash(features) == sum(1 << bit for bit, most in enumerate(bits) if most)


@pytest.mark.parametrize(
    "said",
    [
        "No results found",
        "No results for “boots”",
        "Sorry, no products were found matching your selection.",
        "No products found which match your selection.",
        "0 results",
        "There are no products in this category.",
        "Your search did not match any documents.",
        "Nothing found",
        "No more posts.",
        "Keine Ergebnisse gefunden",
        "Leider wurden keine Produkte gefunden.",
        "0 Treffer",
        "Aucun résultat trouvé",
        "Aucun produit ne correspond à votre recherche",
        "No se encontraron resultados",
        "No hay productos en esta categoría",
        "Nessun risultato trovato",
        "Nenhum resultado encontrado",
        "Geen resultaten gevonden",
        "Brak wyników",
        "Ничего не найдено",
        "没有找到相关商品",
        "見つかりませんでした",
        "검색 결과가 없습니다",
        "Sonuç bulunamadı",
    ],
)
def test_p5_a_page_says_that_its_list_is_empty_in_the_main_languages(said: str) -> None:
    assert text_of(f"<nav><a href=/about>About</a></nav><main><p>{said}</p></main>").says_empty


@pytest.mark.parametrize(
    "said",
    [
        "10 results",
        "120 Treffer",
        "Results found: 10",
        "No questions asked",
        "Not found",
        "No products shipped on Sunday",
        "30 results",
    ],
)
def test_p5_a_page_that_says_other_things_is_not_empty(said: str) -> None:
    assert not text_of(f"<p>{said}</p>").says_empty


def test_p5_only_a_page_that_lists_nothing_is_empty() -> None:
    said = "<p>No results found.</p>"
    assert read(said, parser="product").text.says_empty
    assert not read(said + PRODUCT + "<a href=/list?page=2>2</a>", parser="product").text.says_empty
    assert not text_of(said + "".join(f"<a href=/product/{n}>{n}</a>" for n in range(10))).says_empty
    assert text_of(said + "".join(f"<a href=/product/{n}>{n}</a>" for n in range(9))).says_empty


@pytest.mark.parametrize(
    "hidden", ["hidden", "aria-hidden=true", "style='display: none'", "style='color:red;VISIBILITY:hidden'"]
)
def test_p5_what_nobody_sees_does_not_make_a_page_empty(hidden: str) -> None:
    overlay = f"<div><div {hidden}><b>No results found.</b></div></div><template>No results.</template>"
    assert not text_of(overlay + "<main><p>Boots</p></main>").says_empty
    assert text_of(overlay + "<main><p>No results found.</p></main>").says_empty


def test_p5_the_text_of_one_product_in_full_is_not_looked_at() -> None:
    assert read(PRODUCT + "<p>Boots</p>", parser="product").text == NO_TEXT
    assert read(PRODUCT + "<p>Boots</p><a href=/list?page=2>2</a>", parser="product").text.fingerprint
    assert read("<p>Boots</p>", parser="product").text.fingerprint


@pytest.mark.parametrize(
    "html",
    [
        "<p>no results " * 20_000,
        "<p>" + "No results found. " * 20_000,
        "<div>" * 5_000 + "No results found." + "</div>" * 5_000,
        "<div>" + "<p>No results found.</p>" * 20_000 + "</div>",
        "<svg>" + "<a href=/x>" * 5_000 + "</a>" * 5_000 + "</svg>",
        "<a href=/x>" + "<span>" * 5_000 + "next" + "</span>" * 5_000 + "</a>",
        "<p>" + "x\n" * 500_000,
        "<p>" + "\n".join(map(str, range(200_000))),
    ],
    ids=range(8),
)
def test_p5_hostile_text_costs_a_moment(html: str) -> None:
    begun = time.thread_time()
    read(html)
    assert time.thread_time() - begun < 2.0


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=200))
def test_p5_any_text_has_facts(text: str) -> None:
    facts = read_text(LexborHTMLParser(text), lists_nothing=True)
    assert len(facts.fingerprint) in (0, 8)
    assert 0 <= facts.simhash < 2**64


def test_p5_a_rel_travels_with_its_link() -> None:
    (link,) = read("<a href=/list?page=5>next</a>").links
    assert link == Link(
        url="https://shop.test/list?page=5", kind=LinkKind.LINK_KIND_PAGINATION, nofollow=False, rel=NEXT
    )
