"""The chart's README: what values.yaml says of every value, as a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHART = Path(__file__).parent.parent / "deploy" / "helm" / "limpet"
_KEY = re.compile(r"^( *)([A-Za-z0-9]+):(?: (.*))?$")
MARK = "<!-- values -->\n"


@dataclass(frozen=True)
class Row:
    path: str
    default: str
    words: str


def rows(text: str) -> Iterator[Row]:
    """Each value that has words: the comment right above it."""
    open_keys: list[tuple[int, str]] = []
    words: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("#"):
            words.append(stripped.lstrip("# "))
            continue
        found = _KEY.match(line)
        if found:
            indent = len(found[1])
            while open_keys and open_keys[-1][0] >= indent:
                open_keys.pop()
            open_keys.append((indent, found[2]))
            if words:
                default = found[3] or _nested(lines[number + 1 :], indent)
                yield Row(".".join(key for _, key in open_keys), default, " ".join(words))
        words = []


def _nested(lines: list[str], indent: int) -> str:
    inner = []
    for line in lines:
        if not line.strip() or len(line) - len(line.lstrip()) <= indent:
            break
        if not line.strip().startswith("#"):
            inner.append(line.strip())
    return "; ".join(inner)


def readme() -> str:
    """The head that is written by hand, and the table."""
    head = (CHART / "README.md").read_text().partition(MARK)[0]
    table = ["| value | default | what |", "|---|---|---|"]
    for row in rows((CHART / "values.yaml").read_text()):
        table.append(f"| `{row.path}` | `{row.default}` | {row.words.replace('|', chr(92) + '|')} |")
    return head + MARK + "\n".join(table) + "\n"
