"""How the pages of a list are numbered in their URLs: by a query parameter or in the path, by ones or by steps. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Final, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from limpet.scheduler.canonical import BadUrl, canonical

Style = Literal["query", "path"]

# Parameters that count pages, and those that count entries: the latter go by steps.
PAGE_KEYS: Final = frozenset(
    {
        "page",
        "p",
        "pg",
        "paged",
        "pageno",
        "page_no",
        "pagenum",
        "page_num",
        "pagenumber",
        "seite",
        "pagina",
        "pageindex",
    }
)
OFFSET_KEYS: Final = frozenset({"offset", "start", "skip", "from", "first", "startrow", "startindex", "begin"})
# What stands around a number at the end of a path, the surest first. The number is the second group.
_FORMS: Final = (
    re.compile(r"([/_.-](?:(?:page|pagina|seite|pag|pg)[/_-]?|p))(\d{1,6})(\.[a-z]{2,5}|/)?", re.IGNORECASE),
    re.compile(r"([-_])(\d{1,4})(\.[a-z]{2,5})", re.IGNORECASE),
    re.compile(r"(/)(\d{1,4})(/)?"),
)
# /p2 may be a page or a product.
_PAGE_WORD: Final = re.compile(r"[/_.-](?:page|pagina|seite|pag|pg)[/_-]?\{", re.IGNORECASE)
_EXTENSION: Final = re.compile(r"\.[a-z]{2,5}$", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\d{1,6}")
HOLE: Final = "{}"
MOST: Final = 999_999


@dataclass(frozen=True)
class Rule:
    """A way to number pages that other lists of a site may share. `key` is the parameter, or the path's part with a hole."""

    style: Style
    key: str
    step: int = 1


# What is tried where nothing is known.
GUESSES: Final = (Rule("query", "page"), Rule("path", "/page/{}"))


@dataclass(frozen=True)
class Numbered:
    """A URL, taken as one page of a list."""

    # The URL with a hole where the number was.
    template: str
    number: int
    rule: Rule
    # What all pages of the list have in common, its first one without a number too.
    stem: str


def stem_of(url: str) -> str:
    """What the first page of a list shares with the others, when it has no number itself."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, _bare(parts.path), parts.query, ""))


def _bare(path: str) -> str:
    return _EXTENSION.sub("", path).rstrip("/")


@lru_cache(maxsize=8192)
def readings(url: str) -> tuple[Numbered, ...]:
    """Every way in which a canonical URL may be a page of a list, the surest first."""
    parts = urlsplit(url)
    found = []
    if parts.query:
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        for at, (key, value) in enumerate(pairs):
            if not _DIGITS.fullmatch(value):
                continue
            rest = [*pairs[:at], *pairs[at + 1 :]]
            # A hole in the encoded text: a value could not be told from what is encoded.
            before, after = urlencode(pairs[:at]), urlencode(pairs[at + 1 :])
            query = "&".join(text for text in (before, f"{urlencode([(key, '')])}{HOLE}", after) if text)
            template = urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
            stem = urlunsplit((parts.scheme, parts.netloc, _bare(parts.path), urlencode(rest), ""))
            found.append(Numbered(template, int(value), Rule("query", key), stem))
        found.sort(key=lambda one: not is_counter(one.rule.key))
    for form in _FORMS:
        match = _at_end(form, parts.path)
        if match is not None:
            around = f"{match[1]}{HOLE}{match[3] or ''}"
            path = parts.path[: match.start()]
            template = urlunsplit((parts.scheme, parts.netloc, path + around, parts.query, ""))
            stem = urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), parts.query, ""))
            found.append(Numbered(template, int(match[2]), Rule("path", around), stem))
            break
    return tuple(found)


def _at_end(form: re.Pattern[str], path: str) -> re.Match[str] | None:
    # Only the end of the path is looked at, so that no length of it costs anything.
    start = max(0, len(path) - 32)
    last = None
    for match in form.finditer(path, start):
        if match.end() == len(path):
            last = match
    return last


def is_counter(key: str) -> bool:
    """Whether the name alone says that it numbers pages or entries."""
    return key.lower() in PAGE_KEYS or key.lower() in OFFSET_KEYS


def is_offset(key: str) -> bool:
    return key.lower() in OFFSET_KEYS


def is_sure(numbered: Numbered) -> bool:
    """A name like page or offset, or a path like /page/2: the URL alone says so."""
    rule = numbered.rule
    return is_counter(rule.key) if rule.style == "query" else _PAGE_WORD.match(rule.key) is not None


def step_of(rule: Rule, numbers: Iterable[int]) -> int:
    """How far two neighbouring pages are apart. Pages go by ones, entries by what all numbers have in common; 0: unknown."""
    seen = sorted(set(numbers))
    if rule.style == "path" or rule.key.lower() in PAGE_KEYS:
        return 1
    if rule.key.lower() in OFFSET_KEYS:
        # Entries are counted from 0 or from 1.
        from_one = bool(seen) and all(number % 10 == 1 for number in seen)
        return gcd(*(number - from_one for number in seen)) if any(number - from_one for number in seen) else 0
    return gcd(*(number - seen[0] for number in seen)) or 1 if seen else 1


def apply(rule: Rule, url: str) -> str | None:
    """The template of another list under this rule; None where it does not fit."""
    parts = urlsplit(url)
    if rule.style == "query":
        pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != rule.key]
        # A number stands in for the hole while the query is put into its canonical order.
        marked = urlencode([*pairs, (rule.key, "7777777")])
        spelt = _spelt(urlunsplit((parts.scheme, parts.netloc, parts.path, marked, "")))
        return spelt.replace("=7777777", "=" + HOLE, 1) if spelt else None
    base = _bare(parts.path) if _EXTENSION.search(rule.key) else parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, base + rule.key, parts.query, ""))


def fill(template: str, number: int) -> str:
    return template.replace(HOLE, str(number), 1)


def number_in(template: str, url: str) -> int | None:
    """The number of the page, where the URL is one of this template."""
    before, _, after = template.partition(HOLE)
    if not url.startswith(before) or not url.endswith(after):
        return None
    middle = url[len(before) : len(url) - len(after)]
    return int(middle) if _DIGITS.fullmatch(middle) else None


def _spelt(url: str) -> str | None:
    try:
        return canonical(url).url
    except BadUrl:
        return None
