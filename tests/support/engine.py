"""The shipped stacks on the real engine, with the steps it takes written down."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pulumi.automation import events

from simcloud.engine import Sim
from tests.support.files import ROOT, stack_config

FAST = 0.005
"""Seconds a simulated minute takes in tests."""


@contextmanager
def simulated(
    root: Path,
    name: str,
    config: Mapping[str, Any] | None = None,
    scale: float = FAST,
    *,
    file: Path | None = None,
    checkpoints: bool = False,
) -> Iterator[Sim]:
    """A shipped stack in a scratch cloud below `root`, `bare-NAME` without what runs in it.

    `file` is a stack file of another place. State below `root` is picked up again.
    """
    stack = name.removeprefix("bare-")
    bare = stack != name
    with Sim(
        root,
        stack=stack,
        config_file=None if bare else file or ROOT / f"Pulumi.{stack}.yaml",
        config={**(stack_config(name) if bare else {}), **(config or {})},
        program=ROOT / "__main__.py",
        scale=scale,
        checkpoints=checkpoints,
    ) as sim:
        yield sim


class Steps:
    """What the engine did in one operation: `(operation, logical name)` in the order it began.

    `reasons` are the properties that differ, by name; `google` the names of Google's resources.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.reasons: dict[str, list[str]] = {}
        self.google: set[str] = set()

    def __call__(self, event: events.EngineEvent) -> None:
        step = event.resource_pre_event
        if step is None:
            return
        name = step.metadata.urn.rsplit("::", 1)[1]
        self.taken.append((step.metadata.op.value, name))
        reasons = [*(step.metadata.detailed_diff or {}), *(step.metadata.keys or [])]
        self.reasons.setdefault(name, []).extend(reasons)
        if step.metadata.type.startswith("gcp:"):
            self.google.add(name)

    @property
    def changes(self) -> list[tuple[str, str]]:
        """The steps that change something."""
        return [each for each in self.taken if each[0] not in ("same", "read", "refresh")]
