"""The engine's events as the JSON lines the CLI writes with `--event-log`."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from pulumi.automation.events import BaseEvent, EngineEvent


def to_json(event: EngineEvent) -> str:
    """One event as one line; `EngineEvent.from_json` reads it back."""
    return json.dumps(_plain(event))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseEvent):
        return {_camel(key): _plain(item) for key, item in vars(value).items() if item is not None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _camel(key: str) -> str:
    if key == "policy_packs":  # the one key the engine spells with a capital
        return "PolicyPacks"
    first, *rest = key.split("_")
    return first + "".join(part.title() for part in rest)
