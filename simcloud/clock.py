"""How long an operation takes in the simulated cloud: minutes by table, scaled to seconds."""

from __future__ import annotations

import os
import time
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "tables" / "durations.toml"
SCALE = 0.05
"""Seconds a simulated minute lasts unless SIM_SCALE says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Duration:
    """Minutes one kind of object takes, with the public source of the figure."""

    create: float
    update: float
    delete: float
    source: str
    assumed: bool


@cache
def table() -> dict[str, Duration]:
    """The duration of every type, chart and kind; keys may end in `*`."""
    entries: dict[str, dict[str, Any]] = tomllib.loads(TABLE.read_text())["duration"]
    return {key: _duration(entry) for key, entry in entries.items()}


def _duration(entry: dict[str, Any]) -> Duration:
    create = float(entry["create"])
    return Duration(
        create=create,
        update=float(entry.get("update", create * 0.25)),
        delete=float(entry.get("delete", create * 0.5)),
        source=entry["source"],
        assumed=bool(entry.get("assumed", False)),
    )


@cache
def duration(key: str) -> Duration:
    """The duration of `key`: the exact entry, else the longest matching pattern, else nothing."""
    found = table()
    if key in found:
        return found[key]
    matching = [pattern for pattern in found if fnmatchcase(key, pattern)]
    return found[max(matching, key=len)] if matching else _NOTHING


_NOTHING = Duration(create=0, update=0, delete=0, source="not modelled", assumed=True)


def scale_from_env() -> float:
    """SIM_SCALE: seconds a simulated minute lasts, 0 for no waiting."""
    text = os.environ.get("SIM_SCALE", str(SCALE))
    try:
        value = float(text)
    except ValueError:
        value = -1
    if value < 0:
        message = f"SIM_SCALE={text!r}: seconds per simulated minute, a number of 0 or more"
        raise ValueError(message)
    return value


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Turns simulated minutes into waiting."""

    scale: float = field(default_factory=scale_from_env)

    def wait(self, minutes: float, since: float) -> None:
        """Wait until `minutes` have passed since the monotonic time `since`."""
        left = since + minutes * self.scale - time.monotonic()
        if left > 0:
            time.sleep(left)
