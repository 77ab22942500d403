"""The files a stack ships with."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def stack_config(name: str) -> dict[str, Any]:
    """The `config:` mapping of a shipped stack file."""
    found = yaml.safe_load((ROOT / f"Pulumi.{name}.yaml").read_text())["config"]
    return dict(found)
