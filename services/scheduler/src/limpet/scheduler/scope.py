"""What a batch follows: hosts, patterns, depth, parameters, traps. Pure: a link in, an address or a reason out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import re2

from limpet.scheduler.canonical import BadUrl, Canonical, canonical
from limpet.scheduler.traps import Trap, trap_in, without_session

# Every reason for which a link is left out, and what it means to people.
REASONS: Final[Mapping[str, str]] = {
    "bad_url": "it is no address that can be crawled",
    "other_host": "its host is not followed",
    "unknown_host": "its host is no domain of the platform",
    "nofollow": "the page asks not to follow it",
    "too_deep": "it is further from the start than max_depth",
    "excluded": "an exclude pattern matches",
    "not_included": "no include pattern matches",
    "too_long": "it is longer than any sane address",
    "repeated_segments": "its path repeats itself",
    "deep": "it is one more of very deep paths",
    "calendar": "it belongs to a calendar that never ends",
    "facets": "it is one more combination of filters",
    "duplicate": "its page says that it is another address of a page that is known",
    "list_ended": "it claims to go on with a list that has ended",
    "max_pages": "the batch has its pages",
    "max_bytes": "the batch has its bytes",
}
# These hold for a place on the way, not for the address: from elsewhere it may be followed.
PASSING: Final = frozenset(
    {"nofollow", "too_deep", "duplicate", "list_ended", "max_pages", "max_bytes", "unknown_host"}
)
# One program for a pattern may take so much memory; a foreign pattern never costs more than linear time.
PATTERN_MEMORY: Final = 1 << 20


class BadPattern(ValueError):
    """This is no regular expression that RE2 takes."""


@dataclass(frozen=True)
class Scope:
    """Compiled once for a batch."""

    include: tuple[Any, ...] = ()
    exclude: tuple[Any, ...] = ()
    max_depth: int | None = None
    hosts: Literal["same_host", "same_domain", "listed"] = "same_host"
    allow_hosts: frozenset[str] = frozenset()
    drop_params: tuple[str, ...] = ()
    keep_params: tuple[str, ...] | None = None
    sort_params: bool = False
    obey_nofollow: bool = True
    obey_canonical: bool = True
    paginate: bool = True
    traps: bool = True
    max_calendar: int = 60
    max_facets: int = 200
    max_deep: int = 200
    max_hosts: int = 20
    _texts: tuple[str, ...] = field(default=(), repr=False)

    def rewritten(self, target: Canonical) -> Canonical:
        """The address under which the batch knows the page: without sessions and the parameters that are not wanted."""
        url = target.url
        if self.traps:
            url = without_session(url, tracking=True)
        if "?" in url and (self.drop_params or self.keep_params is not None or self.sort_params):
            parts = urlsplit(url)
            pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if self._keeps(pair[0])]
            if self.sort_params:
                pairs.sort()
            url = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(pairs), parts.fragment))
        return target if url == target.url else canonical(url)

    def _keeps(self, name: str) -> bool:
        if self.keep_params is not None and not any(fnmatchcase(name, one) for one in self.keep_params):
            return False
        return not any(fnmatchcase(name, one) for one in self.drop_params)

    def takes_host(self, host: str, *, of: str) -> bool:
        """Whether links of a page of one host may lead to the other."""
        if host in self.allow_hosts:
            return True
        if self.hosts == "listed":
            return False
        return host == of or (self.hosts == "same_domain" and is_related(host, of))

    def refusal(self, url: str) -> str | None:
        """What the patterns say."""
        if any(pattern.search(url) for pattern in self.exclude):
            return "excluded"
        if self.include and not any(pattern.search(url) for pattern in self.include):
            return "not_included"
        return None

    def trap(self, url: str, *, today: date) -> Trap | None:
        return trap_in(url, today=today) if self.traps else None

    def most_of(self, trap: Trap) -> int:
        """How many addresses of its shape are taken."""
        return {"calendar": self.max_calendar, "deep": self.max_deep}.get(trap.reason, self.max_facets)


def is_related(host: str, of: str) -> bool:
    """Whether one is the other, or a host below it; a leading www does not count. A name of one label is nobody's."""
    first, second = host.removeprefix("www."), of.removeprefix("www.")
    if "." not in first or "." not in second:
        return False
    return first == second or first.endswith("." + second) or second.endswith("." + first)


@dataclass(frozen=True)
class Judged:
    """Where a link leads, or why it is left out; with a trap, only while few enough of its shape were taken."""

    target: Canonical | None
    reason: str | None = None
    trap: Trap | None = None


def judge(scope: Scope, text: str, *, host: str, depth: int, nofollow: bool, today: date) -> Judged:
    """A link of a page of this host; `depth` is that of the link's target."""
    try:
        target = scope.rewritten(canonical(text))
    except BadUrl:
        return Judged(None, "bad_url")
    if target.domain != host and not scope.takes_host(target.domain, of=host):
        return Judged(target, "other_host")
    if reason := scope.refusal(target.url):
        return Judged(target, reason)
    trap = scope.trap(target.url, today=today)
    if trap is not None and trap.shape is None:
        return Judged(target, trap.reason)
    if nofollow and scope.obey_nofollow:
        return Judged(target, "nofollow")
    if scope.max_depth is not None and depth > scope.max_depth:
        return Judged(target, "too_deep")
    return Judged(target, None, trap)


def is_duplicate(url: str, canonical_url: str) -> bool:
    """Whether a page is another address of the page that it names: the same path, other parameters.

    A page that names something else altogether is not believed: many sites name their front page everywhere.
    """
    return url != canonical_url and urlsplit(url)[:3] == urlsplit(canonical_url)[:3]


@lru_cache(maxsize=1000)
def read_scope(text: str) -> Scope:
    """From the JSON that the batch keeps."""
    said: dict[str, Any] = json.loads(text)
    return Scope(
        include=compiled(said.pop("include", ())),
        exclude=compiled(said.pop("exclude", ())),
        allow_hosts=frozenset(said.pop("allow_hosts", ())),
        drop_params=tuple(said.pop("drop_params", ())),
        keep_params=tuple(kept) if (kept := said.pop("keep_params", None)) is not None else None,
        **said,
    )


def compiled(patterns: Sequence[str]) -> tuple[Any, ...]:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    found = []
    for pattern in patterns:
        try:
            found.append(re2.compile(pattern, options))
        except re2.error as error:
            raise BadPattern(f"{pattern[:100]!r} is no regular expression: {_said(error)}") from None
    return tuple(found)


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
