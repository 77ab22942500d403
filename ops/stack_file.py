"""Reads a stack file as `pulumi` would, without it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from config.stack import NAMESPACE, Report, check
from tools import stack_yaml


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
    return judge(stack, settings(stack))


def judge(stack: str, given: Mapping[Any, Any]) -> Report:
    """Check against today what a stack file says."""
    name = stack_file(stack).stem.removeprefix("Pulumi.")
    return check(given, name=f"{NAMESPACE}-{name}", today=datetime.now(UTC).date())


def settings(stack: str) -> Mapping[Any, Any]:
    """The `config:` of a stack file. OSError or yaml.YAMLError when it cannot be read."""
    path = stack_file(stack)
    config: Any = stack_yaml.read(path).get("config")
    if not isinstance(config, Mapping):
        msg = f"{path} has no `config:` mapping"
        raise yaml.YAMLError(msg)
    return config


PLACEHOLDERS = ("0" * 64, "0" * 40, "my-project", "my-reservation")


def placeholders(given: Any, path: str = "") -> Iterator[str]:
    """Where a file still says what the shipped ones say in place of a user's own."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield from placeholders(value, f"{path}.{key}" if path else str(key))
    elif isinstance(given, list):
        for index, value in enumerate(given):
            yield from placeholders(value, f"{path}[{index}]")
    elif any(each in str(given) for each in PLACEHOLDERS):
        yield path
