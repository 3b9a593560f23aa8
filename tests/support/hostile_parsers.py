"""Parsers that do what a parser must not. Installed for the test that asks for them, as somebody's distribution would be."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from limpet.parser.document import Document
from limpet.parser.parsers.registry import GROUP

Items = list[dict[str, Any]]


def sleeps(document: Document) -> Items:
    time.sleep(3600)
    return []


def backtracks(document: Document) -> Items:
    re.match(r"(a+)+$", "a" * 60 + "b")
    return []


def grows(document: Document) -> Items:
    taken = []
    while True:
        taken.append(bytearray(8 << 20))


def segfaults(document: Document) -> Items:
    return [{"found": ctypes.string_at(8)}]


def leaves(document: Document) -> Items:
    os._exit(3)


def exits(document: Document) -> Items:
    raise SystemExit("enough")


class SiteChanged(Exception):
    """An exception of its own."""


def raises(document: Document) -> Items:
    raise SiteChanged("no such table")


def half_a_letter(document: Document) -> Items:
    raise ValueError("half a letter: \ud800")


def babbles(document: Document) -> Items:
    """Writes to every file that the process has open."""
    for fd in range(3, 32):
        try:
            os.write(fd, b"\xff" * 64)
        except OSError:
            continue
    return []


def starts_another(document: Document) -> Items:
    # Its name is told by the page, so that the test finds it.
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(3600) # {document.head.title}"])
    time.sleep(3600)
    return []


def env(document: Document) -> Items:
    return [dict(os.environ)]


def which(document: Document) -> Items:
    return [{"pid": os.getpid(), "parent": os.getppid(), "title": document.head.title}]


def hogs(document: Document) -> Items:
    """Takes much, within its limit, and gives none of it back."""
    hogs.__dict__.setdefault("kept", []).append(b"\x01" * (40 << 20))
    return which(document)


PARSERS = (
    sleeps, backtracks, grows, segfaults, leaves, exits, raises, half_a_letter, babbles, starts_another, env, which, hogs,
)  # fmt: skip


def install(folder: Path) -> None:
    """As a distribution in a folder that is on PYTHONPATH, together with this repository."""
    place = folder / "hostile_parsers-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile-parsers\nVersion: 1.0\n")
    lines = [f"{parser.__name__} = tests.support.hostile_parsers:{parser.__name__}" for parser in PARSERS]
    (place / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))
