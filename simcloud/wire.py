"""The protocol's messages, imported without the rest of the SDK where nothing else needs it."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2
from google.protobuf.pyext import cpp_message


def light() -> None:
    """Stand-ins for the packages around the protocol modules: a third of the start-up time.

    For a process of its own only: the real SDK cannot be imported afterwards.
    """
    # As the SDK does: resource definitions nest deeper than protobuf's own limit of 100.
    cpp_message._message.SetAllowOversizeProtos(True)  # noqa: SLF001  there is no other way
    if "pulumi" in sys.modules:
        return
    spec = importlib.util.find_spec("pulumi")
    if spec is None or not spec.submodule_search_locations:
        message = "the pulumi package is not installed in this interpreter"
        raise ImportError(message)
    root = Path(spec.submodule_search_locations[0])
    for name, folder in (("pulumi", root), ("pulumi.runtime", root / "runtime")):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = [str(folder)]


def to_dict(struct: Any) -> dict[str, Any]:
    """A protobuf Struct as plain data; whole numbers become int."""
    return {key: _value(item) for key, item in struct.fields.items()}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "struct_value":
        return to_dict(value.struct_value)
    if kind == "list_value":
        return [_value(item) for item in value.list_value.values]
    return None


def to_struct(value: dict[str, Any]) -> Any:
    struct = struct_pb2.Struct()
    for key, item in value.items():
        _fill(struct.fields[key], item)
    return struct


def _fill(target: Any, item: Any) -> None:
    if item is None:
        target.null_value = 0
    elif isinstance(item, bool):
        target.bool_value = item
    elif isinstance(item, int | float):
        target.number_value = item
    elif isinstance(item, str):
        target.string_value = item
    elif isinstance(item, dict):
        fields = target.struct_value.fields
        target.struct_value.SetInParent()
        for key, below in item.items():
            _fill(fields[key], below)
    elif isinstance(item, list | tuple):
        target.list_value.SetInParent()
        for below in item:
            _fill(target.list_value.values.add(), below)
    else:
        message = f"no property value: {type(item).__name__}"
        raise TypeError(message)
