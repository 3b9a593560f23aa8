"""The wheels of the images: of the five services and of all they stand on, pinned by requirements.lock, for Python 3.13."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
OWN = (
    "proto",
    "libs/kit",
    *(f"services/{name}" for name in ("scheduler", "fetcher", "parser", "proxy-broker", "health")),
)
SERVICES = tuple(f"limpet-{Path(folder).name}" for folder in OWN[2:])
PYTHON = "3.13"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure() -> set[str]:
    """What the services stand on, by what is installed here."""
    found: set[str] = set()
    open_names: list[tuple[str, frozenset[str]]] = [(name, frozenset()) for name in SERVICES]
    seen = set(open_names)
    while open_names:
        name, extras = open_names.pop()
        found.add(name)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue
        for requirement in map(Requirement, lines):
            asked = [{"extra": extra, "python_version": PYTHON} for extra in (*extras, "")]
            if requirement.marker is None or any(requirement.marker.evaluate(given) for given in asked):
                node = (canonical(requirement.name), frozenset(requirement.extras))
                if node not in seen:
                    seen.add(node)
                    open_names.append(node)
    return {name for name in found if not name.startswith("limpet-")}


def pins(names: set[str]) -> str:
    """Their lines of the lock, with hashes."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / "requirements.lock").read_text())
    lines = ["\n".join(line for line in block.splitlines() if not line.strip().startswith("#")) for block in blocks]
    return "\n".join(line for line in lines if canonical(re.split(r"[=\[ ;]", line, maxsplit=1)[0]) in names) + "\n"


def strip(wheel: Path) -> None:
    """Half of what extension modules weigh is for debuggers. Without binutils here, images are larger and as good."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as given:
        libraries = [name for name in given.namelist() if name.endswith(".so")]
        if not libraries or shutil.which("strip") is None:
            return
        given.extractall(folder, libraries)
        subprocess.run(["strip", "--strip-debug", *(str(Path(folder) / name) for name in libraries)], check=True)
        slim = Path(folder) / wheel.name
        with zipfile.ZipFile(slim, "w", zipfile.ZIP_DEFLATED) as made:
            for entry in given.infolist():
                kept = Path(folder) / entry.filename
                made.writestr(entry, kept.read_bytes() if entry.filename in libraries else given.read(entry))
        shutil.copyfile(slim, wheel)


def main(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    lock = target / "requirements.txt"
    lock.write_text(pins(closure()))
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    download = [*PIP, "download", "--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version", PYTHON]
    subprocess.run([*download, *platforms, "-d", str(target), "-r", str(lock)], check=True)
    for wheel in target.glob("*.whl"):
        strip(wheel)
    folders = [str(ROOT / folder) for folder in OWN]
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(target), *folders], check=True)
    lock.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
