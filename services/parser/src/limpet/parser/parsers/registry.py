"""The parsers that are installed, by name: ours and those of other distributions, all by entry point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Final

from limpet.kit.errors import LimpetError
from limpet.parser.parsers import Parser

GROUP: Final = "limpet.parsers"
OWN: Final = "limpet-parser"
# What importing and making a foreign thing can end in.
_LOADING: Final = (
    ImportError,
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class BadParser(LimpetError):
    """An installed parser cannot be used. The process does not start with it."""


@cache
def installed() -> Mapping[str, Parser]:
    """Looked up once: what is installed does not change while a process runs."""
    return load(entry_points(group=GROUP))


def load(points: Iterable[EntryPoint]) -> Mapping[str, Parser]:
    """Installing a distribution allows its parsers; two of one name are refused, whoever came first."""
    found: dict[str, Parser] = {}
    owners: dict[str, str] = {}
    for point in points:
        owner = f"{_distribution(point)} ({point.value})"
        if point.name in owners:
            raise BadParser(
                f"two parsers are named {point.name!r}: {owners[point.name]} and {owner}; rename or remove one of them"
            )
        owners[point.name] = owner
        found[point.name] = _parser(point, owner)
    if not any(owner.startswith(f"{OWN} ") for owner in owners.values()):
        raise BadParser(f"{OWN} is installed without its own parsers; install it again")
    return MappingProxyType(dict(sorted(found.items())))


def _parser(point: EntryPoint, owner: str) -> Parser:
    try:
        target = point.load()
        made = target() if isinstance(target, type) else target
    except _LOADING as error:
        raise BadParser(f"the parser {point.name!r} of {owner} does not load: {error!r}") from error
    parser = made if isinstance(made, Parser) else _wrapped(made, point)
    if parser.name != point.name:
        raise BadParser(f"the parser {point.name!r} of {owner} calls itself {parser.name!r}")
    if parser.extract is None and parser.read is None:
        raise BadParser(f"the parser {point.name!r} of {owner} has neither extract(document) nor read(body, url, type)")
    return parser


def _wrapped(made: Any, point: EntryPoint) -> Parser:
    """A function of a document, or an object with what a Parser has; the version is that of its distribution if unsaid."""
    methods = {name: getattr(made, name, None) for name in ("extract", "read")}
    if callable(made) and not any(methods.values()):
        methods["extract"] = made
    version = point.dist.version if point.dist is not None else "0"
    return Parser(
        name=str(getattr(made, "name", point.name)),
        version=str(getattr(made, "version", version)),
        page_type=str(getattr(made, "page_type", "page")),
        content_types=frozenset(getattr(made, "content_types", ())),
        **methods,
    )


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown distribution"
