"""Proof that the engine works on the scratch backend and on nothing else."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from simcloud.cloud import RefusedError


class Guard:
    """The file backend locks a stack while an operation runs; no lock there, no simulated object.

    A real stack lives in another backend, so a provider attached to it by mistake refuses every
    create, read, update and delete.
    """

    def __init__(self, backend: Path) -> None:
        self.locks = backend / ".pulumi" / "locks"
        self._admitted: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def admit(self, urn: str, peer: str) -> None:
        stack, project = urn.removeprefix("urn:pulumi:").split("::")[:2]
        key = (peer, f"{project}/{stack}")
        with self._lock:
            if key in self._admitted:
                return
            folder = self.locks / "organization" / project / stack
            if not any(folder.glob("*.json")):
                message = (
                    f"the simulated cloud only serves stacks of its scratch backend: "
                    f"{project}/{stack} holds no lock below {self.locks}. The engine that asks "
                    "runs on another backend; unset PULUMI_DEBUG_PROVIDERS there."
                )
                raise RefusedError(message)
            self._admitted.add(key)

    def engines(self) -> list[int]:
        """The process ids of the engines that hold a lock of the scratch backend."""
        pids = []
        for path in self.locks.rglob("*.json"):
            pid = json.loads(path.read_text()).get("pid")
            if isinstance(pid, int) and pid not in (os.getpid(), os.getppid()):
                pids.append(pid)
        return pids
