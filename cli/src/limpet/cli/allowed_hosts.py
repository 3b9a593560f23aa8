"""The hosts a person typed: the local fetchers may reach them even at private addresses."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable
from pathlib import Path


def allow(file: Path, names: Iterable[str]) -> list[str]:
    """Add those of `names` that are not in `file` yet, a line each; they come back. Two crawls may do so at once."""
    with file.open("a+") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.seek(0)
        text = lines.read()
        present = set(text.split())
        new = [name for name in dict.fromkeys(names) if name not in present]
        if new:
            start = "\n" if text and not text.endswith("\n") else ""
            lines.write(start + "".join(f"{name}\n" for name in new))
    return new
