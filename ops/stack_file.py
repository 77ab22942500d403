"""Reads a stack file as `pulumi` would, without it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from config.stack import NAMESPACE, Report, check


def stack_file(stack: str) -> Path:
    """The file of a stack: its name here or among the examples, or the path of a file."""
    path = Path(stack)
    if path.suffix in (".yaml", ".yml"):
        return path
    own = Path(f"Pulumi.{stack}.yaml")
    examples = sorted(Path().glob(f"examples/*/{own}"))
    return own if own.exists() or not examples else examples[0]


def read(stack: str) -> Report:
    """Check a stack file against today. OSError or yaml.YAMLError when it cannot be read."""
    path = stack_file(stack)
    # C-speed where libyaml is there; the pure loader understands the same.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 both are safe
    config: Any = content.get("config") if isinstance(content, Mapping) else None
    if not isinstance(config, Mapping):
        msg = f"{path} has no `config:` mapping"
        raise yaml.YAMLError(msg)
    name = path.stem.removeprefix("Pulumi.")
    return check(config, name=f"{NAMESPACE}-{name}", today=datetime.now(UTC).date())
