"""Which encoding a page is in: byte order mark, then the header, then the page itself, then a look at the bytes."""

from __future__ import annotations

import codecs
import re
from typing import Final

# The encodings of the web by the names that sites use; what is not listed is not believed.
_FAMILIES: Final = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 us-ascii ascii",
    "windows-1252": "windows-1252 cp1252 iso-8859-1 iso8859-1 latin1 latin-1",
    "windows-1250": "windows-1250 cp1250",
    "windows-1251": "windows-1251 cp1251",
    "windows-1253": "windows-1253 cp1253",
    "windows-1254": "windows-1254 cp1254 iso-8859-9 latin5",
    "windows-1255": "windows-1255 cp1255",
    "windows-1256": "windows-1256 cp1256",
    "windows-1257": "windows-1257 cp1257",
    "windows-1258": "windows-1258 cp1258",
    "cp874": "windows-874 iso-8859-11 tis-620",
    "iso-8859-2": "iso-8859-2 latin2",
    "iso-8859-5": "iso-8859-5",
    "iso-8859-7": "iso-8859-7",
    "iso-8859-8": "iso-8859-8",
    "iso-8859-15": "iso-8859-15 latin9",
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "gb18030": "gb18030 gbk gb2312 x-gbk",
    "big5hkscs": "big5 big5-hkscs",
    "cp932": "shift_jis shift-jis sjis windows-31j",
    "euc_jp": "euc-jp",
    "iso2022_jp": "iso-2022-jp",
    "cp949": "euc-kr ks_c_5601-1987 windows-949",
    "utf-16-le": "utf-16 utf-16le",
    "utf-16-be": "utf-16be",
}
_CODECS: Final = {name: codec for codec, names in _FAMILIES.items() for name in names.split()}
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META: Final = re.compile(
    rb"""<meta[^>]{1,200}?charset\s{0,8}=\s{0,8}["']?\s{0,8}([a-zA-Z0-9_:.\-]{1,40})""", re.IGNORECASE
)
_META_WITHIN: Final = 2048


def codec_of(name: str) -> str:
    """Empty for a name that is not believed."""
    return _CODECS.get(name.strip().lower(), "")


def html_source(body: bytes, *, charset: str) -> bytes | str:
    """What to hand to the HTML parser: the bytes themselves where they are UTF-8, their text where they are not."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :] if codec == "utf-8" else body[len(mark) :].decode(codec, "replace")
    codec = codec_of(charset) or _declared(body)
    if codec == "utf-8":
        return body
    if codec:
        return body.decode(codec, "replace")
    # Nobody said anything: UTF-8 if it reads as such, else what browsers assume.
    return body if body.isascii() or _is_utf8(body) else body.decode("windows-1252", "replace")


def _declared(body: bytes) -> str:
    found = _META.search(body, 0, _META_WITHIN)
    codec = _CODECS.get(found[1].decode("ascii").lower(), "") if found else ""
    # A page whose meta tag could be read byte by byte is not in UTF-16, whatever it says.
    return "utf-8" if codec.startswith("utf-16") else codec


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
