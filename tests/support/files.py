"""The files a stack ships with."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]

FOUNDATION = {
    "gcp:project",
    *(f"tpuserve:{each}" for each in ("name", "labels", "protect", "location", "network")),
    *(f"tpuserve:{each}" for each in ("cluster", "tpuPools")),
}
"""What a stack stands on: everything but what runs in its cluster."""

BARE = {"bare-dev": "dev", "bare-prod": "prod"}


def stack_config(name: str) -> dict[str, Any]:
    """The `config:` mapping of a shipped stack file; `bare-NAME` is its foundation alone."""
    file = ROOT / f"Pulumi.{BARE.get(name, name)}.yaml"
    found = dict(yaml.safe_load(file.read_text())["config"])
    if name not in BARE:
        return found
    return {key: value for key, value in found.items() if key in FOUNDATION}
