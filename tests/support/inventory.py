"""Partial inventories: what a stack must contain, said in a file a person can read."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.recorder import Graph

ABSENT = "__missing__"


def differences(graph: Graph, inventory: Path) -> list[str]:
    """Where a graph departs from its inventory: `counts` by type, `values` by name."""
    wanted = yaml.safe_load(inventory.read_text())
    counts = Counter(each.type for each in graph.resources)
    found = [
        f"{kind}: {counts[kind]} registered, {count} in the inventory"
        for kind, count in wanted["counts"].items()
        if counts[kind] != count
    ]
    for kind, named in wanted["values"].items():
        for name, values in named.items():
            match = [each for each in graph.resources if (each.type, each.name) == (kind, name)]
            if not match:
                found.append(f"{kind} {name}: not registered")
                continue
            found += [f"{kind} {name}: {each}" for each in _compare(match[0].inputs, values)]
    return found


def _compare(actual: Any, wanted: Any, path: str = "") -> Iterator[str]:
    if isinstance(wanted, Mapping):
        for key, value in wanted.items():
            here = f"{path}.{key}" if path else str(key)
            present = isinstance(actual, Mapping) and key in actual
            if value == ABSENT:
                if present:
                    yield f"{here} is {json.dumps(actual[key])} and must be absent"
            elif not present:
                yield f"{here} is absent and must be {json.dumps(value)}"
            else:
                yield from _compare(actual[key], value, here)
    elif actual != wanted:
        yield f"{path} is {json.dumps(actual)} and must be {json.dumps(wanted)}"
