"""Which lists of a site are alike: paths, with what tells one entry from another left out. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_PARTICULAR: Final = re.compile(r".*\d.*|[^-_]*[-_][^-_]*[-_].*|.{25,}")


def path_pattern(url: str) -> str:
    """/news/2024/some-long-story is /news/*/*; a number that counts pages is taken out before."""
    segments = urlsplit(url).path.strip("/").split("/")
    return "/" + "/".join("*" if _PARTICULAR.fullmatch(segment) else segment for segment in segments)
