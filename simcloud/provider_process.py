"""The process that plays the cloud, started beside an engine and never longer than it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from simcloud.errors import SimError


class ProviderProcess:
    """`python -m simcloud.server` for one scratch folder. `env` goes to it on top of ours."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._env = env
        self._process: subprocess.Popen[str] | None = None
        self.ports = ""
        """What PULUMI_DEBUG_PROVIDERS of the engine's own process must say."""

    def start(self) -> None:
        """Start it, or start it again if it has ended."""
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        env = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        code = str(Path(__file__).resolve().parents[1])
        path = os.pathsep.join(filter(None, (code, env.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simcloud.server", str(self._folder)],
            stdout=subprocess.PIPE,
            text=True,
            env={**env, **self._env, "PYTHONPATH": path},
        )
        line = self._process.stdout.readline() if self._process.stdout else ""
        self.ports = line.strip()
        if not self.ports:
            self.stop()
            message = "the simulated cloud did not start; its reason is above"
            raise SimError(message)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
