"""Take promtool and prometheus out of Debian's package, without installing it, into the folder that is named."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NEEDED = "promtool is needed and Debian's package could not be fetched. Install it with:\n\n    sudo apt-get install prometheus\n"


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    if found := shutil.which("promtool"):
        (target / "promtool").unlink(missing_ok=True)
        (target / "promtool").symlink_to(found)
        return
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise SystemExit(NEEDED)
    with tempfile.TemporaryDirectory() as folder:
        fetched = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, check=False)
        packages = list(Path(folder).glob("*.deb"))
        if fetched.returncode != 0 or not packages:
            raise SystemExit(NEEDED)
        subprocess.run(["dpkg", "-x", str(packages[0]), folder], check=True)
        for name in ("promtool", "prometheus"):
            shutil.copy2(Path(folder) / "usr" / "bin" / name, target / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
