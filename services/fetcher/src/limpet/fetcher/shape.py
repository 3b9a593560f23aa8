"""What a page shows to people: its title, how much text, and whether it is a form. One bounded walk over its tags."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Final

# More visible text or more tags than that make a page, whatever else stands in it; nobody counts on.
LONG: Final = 3000
MANY_TAGS: Final = 1000
# A form where people write, not a box for the characters in a picture.
FORM_FIELDS: Final = 3
_TAG = re.compile(
    rb"<(?:(?P<hidden>script|style|noscript|template|svg|option|head)\b|(?P<comment>!--)|(?P<title>title|h1)\b"
    rb"|(?P<field>input|textarea|select)\b|(?P<media>img|picture|iframe|frame|video|audio|object|embed|canvas)\b)",
    re.IGNORECASE,
)
_NOT_TYPED = re.compile(rb"type\s*=\s*[\"']?(?:hidden|submit|button|image|checkbox|radio)", re.IGNORECASE)
_PASSWORD = re.compile(rb"type\s*=\s*[\"']?password", re.IGNORECASE)
_MARKUP = re.compile(rb"<[^<>]*>")
_TITLE_BYTES: Final = 300
_FIELD_BYTES: Final = 600


@dataclass(frozen=True, slots=True)
class Shape:
    """A page as its reader sees it."""

    # Title and first heading.
    title: str
    # Visible text, blanks collapsed; of a long page only the beginning.
    text: str
    long: bool
    has_script: bool
    # Pictures, films or frames: content without words.
    has_media: bool
    # Fields to write into.
    fields: int
    # It asks for a password, or has several fields: a login, a contact form.
    is_form: bool


class _Walk:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._missing: set[bytes] = set()
        self._size = self._fields = 0
        self._has_script = self._has_media = self._asks_password = False
        self._titles: dict[bytes, bytes] = {}
        self._kept: list[bytes] = []

    def shape(self) -> Shape:
        long = self._walk()
        return Shape(
            title=_plain(b" / ".join(self._titles.values())),
            text=_plain(b" ".join(self._kept)),
            long=long,
            has_script=self._has_script,
            has_media=self._has_media,
            fields=self._fields,
            is_form=self._asks_password or self._fields >= FORM_FIELDS,
        )

    def _walk(self) -> bool:
        """True where there is more than a short page has."""
        body, at = self._body, 0
        for _ in range(MANY_TAGS):
            start = body.find(b"<", at)
            if start < 0:
                break
            if self._keep(body[at:start]):
                return True
            at = self._pass(start)
            if at < 0:
                return False
        else:
            return True
        return self._keep(body[at : at + LONG + 1])

    def _keep(self, piece: bytes) -> bool:
        if piece := piece.strip():
            self._kept.append(piece)
            self._size += len(piece) + 1
        return self._size > LONG

    def _pass(self, start: int) -> int:
        """Behind the tag that starts here, and behind what it hides; -1 where it never ends."""
        body, found = self._body, start
        if tag := _TAG.match(body, start):
            self._note(tag)
            if tag["comment"]:
                found = self._end(b"-->", tag.end(), start)
            elif (hidden := (tag["hidden"] or b"").lower()) and hidden != b"head":
                found = self._end(b"</" + hidden, tag.end(), start)
            elif (tag["title"] or b"").lower() == b"title":
                found = self._end(b"</title", tag.end(), start)
        end = body.find(b">", found)
        return end + 1 if end >= 0 else -1

    def _note(self, tag: re.Match[bytes]) -> None:
        if name := tag["title"]:
            begin = self._body.find(b">", tag.end()) + 1
            end = self._body.find(b"</" + name, begin, begin + _TITLE_BYTES)
            inner = self._body[begin : end if end >= 0 else begin + _TITLE_BYTES]
            self._titles.setdefault(name.lower(), _MARKUP.sub(b" ", inner))
        elif tag["field"]:
            field = self._body[tag.start() : tag.end() + _FIELD_BYTES].partition(b">")[0]
            self._fields += _NOT_TYPED.search(field) is None
            self._asks_password |= _PASSWORD.search(field) is not None
        elif tag["media"]:
            self._has_media = True
        elif (tag["hidden"] or b"").lower() == b"script":
            self._has_script = True

    def _end(self, ending: bytes, at: int, otherwise: int) -> int:
        """Where this end stands, in lower or else upper case. One that is missing is looked for once: the walk is linear."""
        if ending in self._missing:
            return otherwise
        found = self._body.find(ending, at)
        found = found if found >= 0 else self._body.find(ending.upper(), at)
        if found < 0:
            self._missing.add(ending)
            return otherwise
        return found


def shape_of(body: bytes) -> Shape:
    return _Walk(body).shape()


def _plain(text: bytes) -> str:
    """As people read it: entities as characters, curly apostrophes straight, single blanks."""
    plain = html.unescape(text.decode("utf-8", "replace")).replace("\u2019", "'").replace("\xa0", " ")
    return " ".join(plain.split())
