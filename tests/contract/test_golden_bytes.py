"""Bytes that older processes sent must mean the same to newer ones."""

from __future__ import annotations

import pytest

from tests.contract.make_golden import ENUMS, FOLDER, enum_lines, golden, path_of, read
from tests.contract.messages import every_message

AGAIN = "if the change is meant and both sides can live with it: python -m tests.contract.make_golden"


@pytest.mark.parametrize("name", sorted(every_message()))
def test_golden_bytes_still_decode_to_the_same_message(name: str) -> None:
    kind = every_message()[name]
    kept, built = read(path_of(name)), golden(kind)
    assert list(kept) == list(built), f"{name} has other fields than its golden file; {AGAIN}"
    for field, data in kept.items():
        decoded = kind.FromString(data)
        assert decoded == built[field], f"{name}, {field}: the bytes mean something else now; {AGAIN}"
        assert decoded.SerializeToString(deterministic=True) == data, f"{name}, {field}: other bytes; {AGAIN}"


@pytest.mark.parametrize("name", sorted(every_message()))
def test_the_filled_message_leaves_no_field_empty(name: str) -> None:
    built = golden(every_message()[name])["*"]
    assert {field.name for field, _ in built.ListFields()} == set(built.DESCRIPTOR.fields_by_name)


def test_enum_values_keep_their_numbers() -> None:
    assert ENUMS.read_text().splitlines() == enum_lines(), AGAIN


def test_every_golden_file_belongs_to_a_message() -> None:
    files = {path.name for path in FOLDER.iterdir()}
    assert files == {path_of(name).name for name in every_message()} | {ENUMS.name}
