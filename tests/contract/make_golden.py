"""Write the golden files anew: `python -m tests.contract.make_golden`, for a change of the contract that is meant.

A file per message: its bytes with every field filled, then with each field alone, in hexadecimal.
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import Message

from tests.contract.messages import every_enum, every_message, filled, with_only

FOLDER = Path(__file__).parent / "golden"
ENUMS = FOLDER / "enums.txt"
WHOLE = "*"


def path_of(name: str) -> Path:
    return FOLDER / f"{name.removeprefix('limpet.contracts.')}.txt"


def golden(kind: type[Message]) -> dict[str, Message]:
    """What each line of a message's file must decode to."""
    return {WHOLE: filled(kind), **{field.name: with_only(kind, field.name) for field in kind.DESCRIPTOR.fields}}


def read(path: Path) -> dict[str, bytes]:
    lines = (line.partition(" ") for line in path.read_text().splitlines())
    return {name: bytes.fromhex(data) for name, _, data in lines}


def enum_lines() -> list[str]:
    return sorted(
        f"{name.removeprefix('limpet.contracts.')} {value.name} {value.number}"
        for name, enum in every_enum().items()
        for value in enum.values
    )


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for name, kind in every_message().items():
        lines = [
            f"{field} {message.SerializeToString(deterministic=True).hex()}" for field, message in golden(kind).items()
        ]
        path_of(name).write_text("\n".join(line.rstrip() for line in lines) + "\n")
    ENUMS.write_text("\n".join(enum_lines()) + "\n")


if __name__ == "__main__":
    main()
