"""Generate limpet.contracts from proto/ into proto/gen. `make proto` runs it, `make lint` checks that nothing changed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTO = Path(__file__).parent.parent / "proto"


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else PROTO / "gen"
    shutil.rmtree(out / "limpet", ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("limpet/**/*.proto"))
    bundled = Path(grpc_tools.__file__).parent / "_proto"
    arguments = [
        "protoc",
        f"-I{PROTO}",
        f"-I{bundled}",
        f"--python_out={out}",
        f"--mypy_out={out}",
        *sources,
    ]
    services = [source for source in sources if source.endswith("_service.proto")]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc refused the contract; its message is above")
    stubs = [
        "protoc",
        f"-I{PROTO}",
        f"-I{bundled}",
        f"--grpc_python_out={out}",
        f"--mypy_grpc_out={out}",
        *services,
    ]
    if protoc.main(stubs) != 0:
        raise SystemExit("protoc refused a service; its message is above")
    for folder in [path for path in (out / "limpet").rglob("*") if path.is_dir()]:
        (folder / "__init__.py").touch()
    (out / "limpet" / "contracts" / "py.typed").touch()


if __name__ == "__main__":
    main()
