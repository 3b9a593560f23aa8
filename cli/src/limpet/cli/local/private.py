"""Files that only their owner may read: keys, passwords, the runtime file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Replace `path` with `text` at once, mode 0600. A reader sees the old or the new text, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    draft.replace(path)


def keep_private(path: Path, make: Callable[[], str]) -> str:
    """The text kept in `path`; made and kept the first time."""
    if path.exists():
        return path.read_text().strip()
    text = make()
    write_private(path, text + "\n")
    return text
