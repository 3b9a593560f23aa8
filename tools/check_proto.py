"""Lint the contract, check that it breaks nobody, and that the generated code is what the contract says."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


def run(*command: str) -> None:
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def against() -> str | None:
    """The last commit of main that holds a contract, as something that buf can read."""
    for branch in ("origin/main", "main"):
        found = subprocess.run(
            ["git", "cat-file", "-e", f"{branch}:proto/buf.yaml"], cwd=ROOT, check=False, capture_output=True
        )
        if found.returncode == 0:
            return branch
    return None


def check_breaking(branch: str, folder: str) -> None:
    archive = subprocess.run(["git", "archive", branch, "proto"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    run(str(BIN / "buf"), "breaking", "proto", "--against", f"{folder}/proto")


def check_generated(folder: str) -> None:
    run(sys.executable, "tools/make_proto.py", folder)
    fresh, kept = Path(folder) / "limpet", ROOT / "proto" / "gen" / "limpet"
    names = {path.relative_to(root) for root in (fresh, kept) for path in root.rglob("*.py*") if path.suffix != ".pyc"}
    stale = [
        str(name)
        for name in sorted(names)
        if not (fresh / name).exists()
        or not (kept / name).exists()
        or not filecmp.cmp(fresh / name, kept / name, shallow=False)
    ]
    if stale:
        raise SystemExit(f"generated code differs from the contract ({', '.join(stale[:5])}); run `make proto`")


def main() -> None:
    run(str(BIN / "buf"), "lint", "proto")
    with tempfile.TemporaryDirectory() as folder:
        if branch := against():
            check_breaking(branch, folder)
    with tempfile.TemporaryDirectory() as folder:
        check_generated(folder)


if __name__ == "__main__":
    main()
