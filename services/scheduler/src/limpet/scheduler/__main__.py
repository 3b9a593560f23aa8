"""`python -m limpet.scheduler prepare` migrates and declares streams; `wait` returns when that has been done."""

from __future__ import annotations

from limpet.kit.schema import run

if __name__ == "__main__":
    run("limpet.scheduler")
