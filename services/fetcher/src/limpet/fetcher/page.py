"""What came over the wire as one answer, whatever client brought it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from limpet.fetcher.unchanged import date_of, etag_of

MAX_ERROR = 500


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    body: bytes = field(repr=False)
    # Lower case, without parameters.
    content_type: str
    charset: str
    location: str
    retry_after: str
    # As the site wrote them, or nothing.
    etag: str = ""
    last_modified: str = ""
    # The lines of Set-Cookie.
    cookies: tuple[str, ...] = ()
    # Of the body as it came over the wire where the site says so, else decoded.
    received_bytes: int = field(default=0, compare=False)


def page_of(
    status: int, headers: Mapping[str, str], body: bytes, *, cookies: Sequence[str], received_bytes: int
) -> Page:
    """`headers` are found whatever the case of their names."""
    content_type, charset = media_type(headers.get("Content-Type", ""))
    return Page(
        status=status,
        body=body,
        content_type=content_type,
        charset=charset,
        location=headers.get("Location", ""),
        retry_after=headers.get("Retry-After", ""),
        etag=etag_of(headers.get("ETag", "")),
        last_modified=date_of(headers.get("Last-Modified", "")),
        cookies=tuple(cookies),
        received_bytes=received_bytes,
    )


# Sites say the same again and again.
@lru_cache(maxsize=256)
def media_type(header: str) -> tuple[str, str]:
    """Type and charset. What is not plain ASCII is nothing: it must fit into every store."""
    if not header.isascii() or not header.isprintable():
        return "", ""
    kind, _, rest = header.partition(";")
    charset = ""
    for parameter in rest.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip("\"'").lower()[:40]
            break
    return kind.strip().lower()[:100], charset


def plain(text: str) -> str:
    """Foreign text cut and freed of what neither Protobuf nor PostgreSQL takes."""
    return text[:MAX_ERROR].encode("utf-8", "replace").decode().replace("\x00", "")
