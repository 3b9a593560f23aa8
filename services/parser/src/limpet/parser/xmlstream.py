"""XML as a stream of entries: each has a few fields, and no more of the file is ever in memory. Hostile XML is refused.

Nothing outside the file is looked at, no entity is expanded, and all that grows has a limit. What is broken is read as far as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from limpet.parser.inflate import CutShort
from limpet.parser.xmltext import texts

MAX_DEPTH: Final = 100
MAX_ELEMENTS: Final = 2_000_000
MAX_TOKEN: Final = 1 << 20
MAX_TEXT: Final = 64 << 10
MAX_FIELDS: Final = 50
MAX_PREFIXES, MAX_NAMES = 100, 1_000

# One row per vocabulary that says something about an entry; prefixes are anybody's choice.
_VOCABULARIES: Final = {
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://www.w3.org/2005/Atom": "atom:",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf:",
}
# expat's numbers for what a writer who never escaped an ampersand leaves behind.
_MENDABLE: Final = frozenset({4, 11, 14})


class Refused(ValueError):
    """This file is made to do harm, or might as well be."""


@dataclass(slots=True)
class Field:
    text: str
    attributes: Mapping[str, str]


Fields = dict[str, list[Field]]


class Enough(Exception):
    """Whoever takes the entries has all that he will take."""


@dataclass
class Shape:
    """What to take from a file, by names without prefix."""

    # Elements that are entries.
    entries: frozenset[str]
    # Their children that are kept, with their prefix where it is a known one's. `a/b` is a child's child.
    fields: frozenset[str]
    on_entry: Callable[[str, Fields], None]


@dataclass
class Head:
    """What stands around the entries."""

    root: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    fields: Fields = field(default_factory=dict)
    # Why it was not read to its end; empty where it was.
    note: str = ""


def read_entries(body: bytes, make_shape: Callable[[Head], Shape]) -> Head:
    """A file whose author never escaped an ampersand is read again from its start, mended: `make_shape` is called anew."""
    head, mendable = _read(body, make_shape, mend=False)
    return _read(body, make_shape, mend=True)[0] if mendable else head


def _read(body: bytes, make_shape: Callable[[Head], Shape], *, mend: bool) -> tuple[Head, bool]:
    head = Head()
    walk = _Walk(head, make_shape(head))
    try:
        fed = 0
        for piece in texts(body, mend=mend):
            data = piece.encode("utf-8", "replace")
            fed += len(data)
            walk.parser.Parse(data, False)
            # A token is looked at from its start with every piece, so one without end would cost its square.
            if fed - walk.parser.CurrentByteIndex > MAX_TOKEN + len(data):
                raise Refused(f"a tag or comment of more than {MAX_TOKEN >> 20} MB")
        walk.parser.Parse(b"", True)
    except Enough as enough:
        head.note = str(enough)
    except CutShort as short:
        head.note = str(short)
    except expat.ExpatError as error:
        if not mend and error.code in _MENDABLE:
            return head, True
        head.note = f"broken XML: {error}"
    return head, False


class _Walk:
    """What expat calls, element by element."""

    def __init__(self, head: Head, shape: Shape) -> None:
        self.head, self.shape = head, shape
        self.depth = self.elements = self.size = 0
        # The depth of the entry that is open; 0 for none.
        self.entry_depth = 0
        self.fields: Fields = {}
        # The field that is open, how deep it is, and its text so far.
        self.field, self.field_depth = "", 0
        self.attributes: Mapping[str, str] = {}
        self.parts: list[str] = []
        self.names: dict[str, str] = {}
        self.prefixes: dict[str, str] = {}
        self.own_prefix = ""
        # Our pieces are UTF-8, whatever the file says of itself.
        self.parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.StartDoctypeDeclHandler = self.doctype
        parser.EntityDeclHandler = self.entity

    def start(self, raw: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        self.elements += 1
        if self.depth > MAX_DEPTH:
            raise Refused(f"elements are nested more than {MAX_DEPTH} deep")
        if self.elements > MAX_ELEMENTS:
            raise Enough(f"more than {MAX_ELEMENTS} elements")
        if attributes and self.depth <= 4:
            self._learn(attributes)
        name = self.names.get(raw) or self._name(raw)
        if self.depth == 1:
            self.head.root, self.head.attributes = name, attributes
        elif self.entry_depth:
            below = self.depth - self.entry_depth
            if below == 1:
                self._open(name, attributes)
            elif below == 2 and self.field:
                # A child's child that is wanted has its text for itself; all others' goes to the child.
                self.parts.append(" ")
                if (inner := f"{self.field}/{name}") in self.shape.fields:
                    self._open(inner, attributes)
        elif name in self.shape.entries:
            self.entry_depth, self.fields = self.depth, {}
        elif self.depth <= 3:
            self._open(name, attributes)

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        if name in self.shape.fields:
            self.field, self.field_depth, self.attributes, self.parts, self.size = name, self.depth, attributes, [], 0

    def end(self, raw: str) -> None:
        if self.field and self.depth == self.field_depth:
            fields = self.fields if self.entry_depth else self.head.fields
            known = fields.setdefault(self.field, [])
            if len(known) < MAX_FIELDS:
                known.append(Field("".join(self.parts).strip(), self.attributes))
            self.field = ""
        elif self.depth == self.entry_depth:
            self.entry_depth = 0
            self.shape.on_entry(self.names.get(raw) or self._name(raw), self.fields)
        self.depth -= 1

    def text(self, data: str) -> None:
        if self.field and self.size < MAX_TEXT:
            self.parts.append(data[: MAX_TEXT - self.size])
            self.size += len(data)

    def doctype(self, name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        # A DOCTYPE that only names one is what old feeds have; it is not looked up.
        if has_subset:
            raise Refused("it brings its own document type")

    def entity(self, *declaration: object) -> None:
        raise Refused("it declares entities")

    def _learn(self, attributes: Mapping[str, str]) -> None:
        for key, value in attributes.items():
            if key.startswith("xmlns:") and len(self.prefixes) < MAX_PREFIXES:
                self.prefixes[key[6:]] = _VOCABULARIES.get(value, "")
                self.names.clear()

    def _name(self, raw: str) -> str:
        """Without prefix where it is the root's own, with the usual prefix where the vocabulary is known."""
        prefix, colon, local = raw.rpartition(":")
        if not colon or self.depth == 1 or prefix == self.own_prefix:
            name = local
        else:
            name = (self.prefixes.get(prefix) or f"{prefix}:") + local
        if self.depth == 1:
            self.own_prefix = prefix
        if len(self.names) < MAX_NAMES:
            self.names[raw] = name
        return name
