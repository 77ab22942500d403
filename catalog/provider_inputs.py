"""Arguments of pulumi_gcp 10.2.0 that a stack file's `extra` may use, in snake case."""

import functools
import json
from pathlib import Path
from typing import Any

SOURCE = "arguments of pulumi_gcp 10.2.0"


@functools.cache
def _tables() -> dict[str, dict[str, Any]]:
    file = Path(__file__).parent / "data" / "provider-inputs.json"
    tables: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return tables


def inputs(resource: str) -> dict[str, Any]:
    """Arguments of a resource: None for a plain value, a table for an object, [table] for many."""
    return _tables()[resource]
