"""Take promtool and prometheus out of Debian's package, without installing it, into the folder that is named."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
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
        fetched = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, check=False)
        packages = list(Path(folder).glob("*.deb"))
        if fetched.returncode != 0 or not packages:
            raise SystemExit(NEEDED)
        subprocess.run(["dpkg", "-x", str(packages[0]), folder], check=True)
        for name in NAMES:
            shutil.copy2(Path(folder) / "usr" / "bin" / name, target / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
