"""The text of XML and of plain lists, whatever the bytes were."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from html.entities import html5
from typing import Final

from limpet.parser.charset import codec_of
from limpet.parser.inflate import CutShort, pieces

# Each costs a microsecond.
MAX_MENDED: Final = 1_000_000

_DECLARED: Final = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s{0,8}=\s{0,8}["']([A-Za-z0-9_.:\-]{1,40})""")
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_UNMARKED: Final = ((b"<\x00?\x00", "utf-16-le"), (b"\x00<\x00?", "utf-16-be"))
# What XML has no place for.
_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]+")
_BEFORE_ROOT: Final = re.compile(r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE)
_ROOT: Final = re.compile(r"<(?:[\w.\-]{1,50}:)?([\w.\-]{1,50})[\s/>]")
_AMPERSAND: Final = re.compile(r"&(?:#([0-9]{1,7}|[xX][0-9a-fA-F]{1,6});|([A-Za-z][A-Za-z0-9]{1,31});)?")
_OWN: Final = frozenset({"amp", "lt", "gt", "quot", "apos"})
_LONGEST_ENTITY: Final = 40


def encoding_of(start: bytes) -> tuple[str, int]:
    """The codec, and how many bytes of mark to leave out."""
    for mark, codec in _MARKS:
        if start.startswith(mark):
            return codec, len(mark)
    for look, codec in _UNMARKED:
        if start.startswith(look):
            return codec, 0
    declared = _DECLARED.match(start.lstrip()[:300])
    codec = codec_of(declared[1].decode("ascii")) if declared else ""
    # In UTF-16 this could not have been read.
    if codec and not codec.startswith("utf-"):
        return codec, 0
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "windows-1252", 0
    return "utf-8", 0


def texts(body: bytes, *, mend: bool) -> Iterator[str]:
    """The body's text in pieces, without what XML has no place for; with `mend`, every ampersand stands for itself."""
    decoder: codecs.IncrementalDecoder | None = None
    left = MAX_MENDED
    kept = ""
    begun = False
    for data in pieces(body):
        if decoder is None:
            codec, mark = encoding_of(data)
            decoder, data = codecs.getincrementaldecoder(codec)("replace"), data[mark:]
        text = kept + decoder.decode(data)
        if not begun:
            text = text.lstrip()
            begun = bool(text)
        # An entity that this piece cuts in two waits for the next.
        cut = text.rfind("&", max(0, len(text) - _LONGEST_ENTITY)) if mend else -1
        text, kept = (text[:cut], text[cut:]) if cut >= 0 else (text, "")
        if mend and (left := left - text.count("&")) < 0:
            raise CutShort(f"more than {MAX_MENDED} ampersands")
        yield _clean(text, mend=mend)
    yield _clean(kept, mend=mend)


def _clean(text: str, *, mend: bool) -> str:
    if _ILLEGAL.search(text):
        text = _ILLEGAL.sub("", text)
    return _AMPERSAND.sub(_mended, text) if mend and "&" in text else text


def _mended(found: re.Match[str]) -> str:
    number, name = found.groups()
    if number:
        point = int(number[1:], 16) if number[0] in "xX" else int(number)
        return found[0] if _is_character(point) else ""
    if name in _OWN:
        return found[0]
    return html5.get(f"{name};") or found[0].replace("&", "&amp;")


def _is_character(point: int) -> bool:
    """As XML has it."""
    return point in (9, 10, 13) or 0x20 <= point <= 0xD7FF or 0xE000 <= point <= 0xFFFD or 0x10000 <= point <= 0x10FFFF


def root_of(start: bytes) -> str:
    """The name of the root without its prefix; `?` where it is not among these bytes, empty where this is no XML."""
    codec, mark = encoding_of(start)
    text = _BEFORE_ROOT.sub("", start[mark:].decode(codec, "replace")).lstrip()
    found = _ROOT.match(text)
    return found[1] if found else "?" if text.startswith("<") else ""
