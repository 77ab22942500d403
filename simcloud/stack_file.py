"""The stack file of a scratch project: a copy of the real one without its keys and ciphertext."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pulumi import automation as auto

from simcloud.errors import SimError
from tools import stack_yaml

STAND_IN = "simulated-secret"
"""Takes the place of a value that is encrypted for the real stack: there is no key for it here."""


class StackFile:
    """`Pulumi.<stack>.yaml` below a work folder.

    Plain values are written as they are, objects included. Secrets wait in `pending` until a CLI
    encrypts them.
    """

    def __init__(self, folder: Path, stack: str, project: str) -> None:
        self.path = folder / f"Pulumi.{stack}.yaml"
        self._project = project
        self.pending: dict[str, auto.ConfigValue] = {}

    def copy(self, source: Path | None) -> None:
        """Take the configuration of `source`; without one, keep what an earlier run left."""
        if source is None:
            self._write(_read(self.path))
            return
        if not source.exists():
            message = f"no stack file {source}"
            raise SimError(message)
        document: dict[str, Any] = {"config": {}}
        for key, value in (_read(source).get("config") or {}).items():
            if isinstance(value, dict) and set(value) == {"secure"}:
                self.pending[key] = auto.ConfigValue(STAND_IN, secret=True)
            else:
                document["config"][key] = value
        # The salt belongs to the passphrase of this scratch stack.
        if salt := _read(self.path).get("encryptionsalt"):
            document["encryptionsalt"] = salt
        self._write(document)

    def set(self, config: Mapping[str, Any]) -> None:
        """Replace these keys; None removes one, a key without a colon is the project's."""
        document = _read(self.path)
        entries = document.setdefault("config", {})
        for key, value in config.items():
            full = key if ":" in key else f"{self._project}:{key}"
            if isinstance(value, auto.ConfigValue) and value.secret:
                self.pending[full] = value
            elif value is None:
                entries.pop(full, None)
            else:
                entries[full] = value.value if isinstance(value, auto.ConfigValue) else value
        self._write(document)

    def encrypt(self, stack: auto.Stack) -> None:
        """Have the CLI write the pending secrets."""
        if self.pending:
            stack.set_all_config(self.pending)
            self.pending = {}

    def _write(self, document: Mapping[str, Any]) -> None:
        self.path.write_text(yaml.safe_dump(dict(document), sort_keys=False))


def _read(path: Path) -> dict[str, Any]:
    return dict(stack_yaml.read(path)) if path.exists() else {}
