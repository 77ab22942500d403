"""The Pulumi CLI, bound to one scratch backend."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pulumi import automation as auto
from semver import VersionInfo

from simcloud.errors import SimError
from tools import cli


def find() -> Path:
    """The Pulumi CLI this machine has."""
    found = cli.find()
    if found is None:
        message = "no pulumi executable that fits: run `make setup`, or `python -m tools.cli`"
        raise SimError(message)
    return found


@cache
def _version(path: Path) -> VersionInfo:
    env = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    text = subprocess.check_output([str(path), "version"], env=env, text=True)
    return VersionInfo.parse(text.strip().removeprefix("v"))


class ScratchCli(auto.PulumiCommand):
    """Runs on no other backend, and is deaf to the caller's own Pulumi settings."""

    def __init__(self, backend: str) -> None:
        path = find()
        self.command = str(path)
        self.version = _version(path)
        self.backend = backend

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> auto.CommandResult:
        if additional_env.get("PULUMI_BACKEND_URL") != self.backend:
            message = (
                f"refused: the engine would run on {additional_env.get('PULUMI_BACKEND_URL')}, "
                f"not on the scratch backend {self.backend}"
            )
            raise SimError(message)
        silenced = {key: "" for key in os.environ if key.startswith("PULUMI_")}
        return super().run(args, cwd, {**silenced, **additional_env}, on_output, on_error)
