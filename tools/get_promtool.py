"""Take promtool and prometheus out of Debian's package, without installing it, into the folder that is named."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

NAMES = ("promtool", "prometheus")
NEEDED = "promtool is needed and Debian's package could not be fetched. Install it with:\n\n    sudo apt-get install prometheus\n"


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    here = [shutil.which(name) for name in NAMES]
    if all(here):
        for name, path in zip(NAMES, here, strict=True):
            (target / name).unlink(missing_ok=True)
            (target / name).symlink_to(str(path))
        return
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise SystemExit(NEEDED)
    with tempfile.TemporaryDirectory() as folder:
        package = _download(Path(folder), ()) or _download(Path(folder), _own_lists(Path(folder)))
        if package is None:
            raise SystemExit(NEEDED)
        subprocess.run(["dpkg", "-x", str(package), folder], check=True)
        for name in NAMES:
            shutil.copy2(Path(folder) / "usr" / "bin" / name, target / name)


def _download(folder: Path, options: Sequence[str]) -> Path | None:
    subprocess.run(["apt-get", *options, "download", "prometheus"], cwd=folder, capture_output=True, check=False)
    return next(folder.glob("*.deb"), None)


def _own_lists(folder: Path) -> tuple[str, ...]:
    """Where the system's lists of packages are missing or old: lists of our own, which need no root."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    options = ("-o", f"Dir::State::Lists={folder}/lists", "-o", f"Dir::Cache={folder}")
    subprocess.run(["apt-get", *options, "update"], cwd=folder, capture_output=True, check=False)
    return options


if __name__ == "__main__":
    main(Path(sys.argv[1]))
