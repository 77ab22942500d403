"""What a change of inputs does to an object, in the words both halves of the cloud share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simcloud.values import DEFAULTS, Props, differences, pattern, under


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`detail`: property path -> add, delete or update, perhaps with "-replace" behind it."""

    detail: Mapping[str, str] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    delete_before_replace: bool = False


def top(path: str) -> str:
    """The top-level property of a path."""
    return pattern(path).split(".", 1)[0]


def changes(old: Props, new: Props, ignored: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The differences of two sets of inputs, without bookkeeping and ignored paths."""
    ignored = tuple(ignored)
    for path, kind in differences(old, new):
        if DEFAULTS not in path and not any(under(path, root) for root in ignored):
            yield path, kind


def at(value: Any, path: str) -> Any:
    """The plain value at a property path with indices, None where nothing is there."""
    for part in _parts(path):
        if isinstance(part, int):
            value = value[part] if isinstance(value, list) and part < len(value) else None
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _parts(path: str) -> Iterator[str | int]:
    for quoted, index, name in re.findall(r'\["([^"]*)"\]|\[(\d+)\]|([^.\[\]]+)', path):
        yield int(index) if index else quoted or name
