"""Changes to a stack file, written as dotted paths."""

import copy
from collections.abc import Mapping
from typing import Any

REMOVED = "__removed__"


def changed(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `config` with each dotted path set, or removed when its value says so."""
    result = copy.deepcopy(dict(config))
    for path, value in changes.items():
        *holders, last = path.split(".") if not path.startswith("gcp:") else [path]
        holder: Any = result
        for key in holders:
            holder = holder.setdefault(key, {})
        if value == REMOVED:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(value)
    return result
