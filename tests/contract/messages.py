"""Every message of the contract, and a filled example of each that is the same on every machine."""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

# The stubs know two kinds of field descriptor, Python's own and that of the C library.
Field: TypeAlias = Any
PACKAGES = ("limpet.contracts.events.v1", "limpet.contracts.proxy.v1")
# Values differ by type as well as by name: a field that changes either one no longer equals its golden bytes.
_SCALARS: dict[int, Callable[[str], Any]] = {
    FieldDescriptor.TYPE_BOOL: lambda _: True,
    FieldDescriptor.TYPE_STRING: lambda name: f"text of {name}",
    FieldDescriptor.TYPE_BYTES: lambda name: b"\x00\xff bytes of " + name.encode(),
    FieldDescriptor.TYPE_INT32: lambda name: 1_000_000 + _number(name),
    FieldDescriptor.TYPE_INT64: lambda name: (1 << 40) + _number(name),
    FieldDescriptor.TYPE_UINT32: lambda name: 3_000_000_000 + _number(name),
    FieldDescriptor.TYPE_UINT64: lambda name: (1 << 63) + _number(name),
    FieldDescriptor.TYPE_FIXED64: lambda name: (1 << 62) + _number(name),
    FieldDescriptor.TYPE_DOUBLE: lambda name: 0.1 + _number(name),
    FieldDescriptor.TYPE_FLOAT: lambda name: 0.5 + _number(name) % 1000,
}


@cache
def every_message() -> dict[str, type[Message]]:
    """Full name to class, of events and RPCs."""
    return {
        descriptor.full_name: GetMessageClass(descriptor)
        for file in _files()
        for descriptor in file.message_types_by_name.values()
    }


@cache
def every_enum() -> dict[str, EnumDescriptor]:
    return {enum.full_name: enum for file in _files() for enum in file.enum_types_by_name.values()}


def _files() -> list[Any]:
    found = []
    for name in PACKAGES:
        package = importlib.import_module(name)
        for info in pkgutil.iter_modules(package.__path__):
            if info.name.endswith("_pb2"):
                found.append(importlib.import_module(f"{name}.{info.name}").DESCRIPTOR)
    return found


def filled(kind: type[Message]) -> Message:
    """Every field set, also those inside."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        _fill(message, field)
    return message


def with_only(kind: type[Message], field: str) -> Message:
    message = kind()
    _fill(message, kind.DESCRIPTOR.fields_by_name[field])
    return message


def _fill(message: Message, field: Field) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        getattr(message, field.name)[_scalar(key, field.name)] = _scalar(value, field.name)
    elif field.message_type is not None and field.is_repeated:
        for _ in range(2):
            getattr(message, field.name).add().CopyFrom(_inner(field))
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(_inner(field))
    elif field.is_repeated:
        getattr(message, field.name).extend([_scalar(field, field.name), _scalar(field, f"second {field.name}")])
    else:
        setattr(message, field.name, _scalar(field, field.name))


def _inner(field: Field) -> Message:
    if field.message_type.full_name == "google.protobuf.Timestamp":
        return GetMessageClass(field.message_type)(seconds=1_800_000_000 + _number(field.name), nanos=123_456_000)
    return filled(GetMessageClass(field.message_type))


def _scalar(field: Field, name: str) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    return _SCALARS[field.type](name)


def _number(name: str) -> int:
    return zlib.crc32(name.encode()) % 1_000_000
