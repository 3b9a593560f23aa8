"""The signatures of pages that refuse us, all looked for in one pass over the bytes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import hyperscan

Tier = Literal["markup", "widget", "challenge", "denied", "script"]
TIERS: Final = ("markup", "widget", "challenge", "denied", "script")
FILE: Final = "signatures.toml"


@dataclass(frozen=True, slots=True)
class Signature:
    """One way in which a kind of page is known."""

    name: str
    # Empty for words that anybody may use.
    vendor: str
    tier: Tier
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Find:
    """A signature that was found, and by which of its patterns."""

    signature: Signature
    pattern: str


class Signatures:
    """A compiled set. Hyperscan never backtracks, so foreign text cannot slow it down."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.all = tuple(signatures)
        self._finds = [Find(signature, pattern) for signature in signatures for pattern in signature.patterns]
        flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
        self._database = hyperscan.Database()
        self._database.compile(
            expressions=[_expression(find.pattern) for find in self._finds],
            ids=list(range(len(self._finds))),
            elements=len(self._finds),
            flags=[flags] * len(self._finds),
        )

    def find(self, body: bytes) -> list[Find]:
        """Each pattern that stands in these bytes, once."""
        found: list[int] = []
        self._database.scan(body, match_event_handler=lambda number, *_: found.append(number))
        return [self._finds[number] for number in sorted(found)]


def _expression(pattern: str) -> bytes:
    return rb"\s+".join(re.escape(word).encode() for word in pattern.split(" "))


def read(text: str) -> list[Signature]:
    """Signatures of a file's text. What is not right in it is an error that names the entry."""
    found = []
    for entry in tomllib.loads(text)["signature"]:
        unknown = set(entry) - {"name", "vendor", "tier", "patterns"}
        if unknown or entry["tier"] not in TIERS or not entry["patterns"]:
            raise ValueError(f"signature {entry.get('name')!r} has an unknown field or tier, or no pattern")
        found.append(Signature(entry["name"], entry["vendor"], entry["tier"], tuple(entry["patterns"])))
    return found


@cache
def known_signatures() -> Signatures:
    """The set that comes with the fetcher; compiled when it is first needed."""
    return Signatures(read((files("limpet.fetcher") / FILE).read_text("utf-8")))
