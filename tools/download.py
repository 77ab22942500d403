"""The official Pulumi CLI, by the Automation API's own installer, under a time limit."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from tools.progress import Progress

ADDRESS = "https://get.pulumi.com/install.sh"
ANSWER_SECONDS = 5.0
STALL_SECONDS = 30.0

# A process of its own, since the installer itself never gives up.
INSTALLER = """
import subprocess, sys
from pulumi.automation import PulumiCommand
from semver import VersionInfo
try:
    PulumiCommand.install(root=sys.argv[1], version=VersionInfo.parse(sys.argv[2]))
except subprocess.CalledProcessError as error:
    sys.exit((error.output or b"").decode(errors="replace") or str(error))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def official(home: Path, version: str, console: Console) -> Path | None:
    """Put the CLI and its language hosts into `home`; None, said on the console, if it cannot."""
    trouble = silence() or fetch(home, version, console)
    if trouble is None:
        return home / "pulumi"
    console.print(f"No official download of Pulumi {version}: {trouble}.", soft_wrap=True)
    return None


def silence() -> str | None:
    """Why the official site cannot be used; None if it answers.

    A name look-up has no time limit of its own, hence the thread.
    """
    verdict: list[str | None] = [f"no answer in {ANSWER_SECONDS:.0f} s"]

    def ask() -> None:
        try:
            with urllib.request.urlopen(ADDRESS, timeout=ANSWER_SECONDS) as reply:
                reply.read(1)
        except OSError as error:
            verdict[0] = str(getattr(error, "reason", error))
        else:
            verdict[0] = None

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    return verdict[0]


def fetch(home: Path, version: str, console: Console) -> str | None:
    """Install into a scratch folder, then move it to `home` in one step; what failed, or None."""
    with tempfile.TemporaryDirectory(prefix=".download-", dir=home) as name:
        scratch = Path(name)
        root, log, link = scratch / "root", scratch / "log", scratch / "pulumi"
        with Progress(console, f"Downloading Pulumi {version}", unit="MB") as progress:
            trouble = _install([sys.executable, "-c", INSTALLER, root, version], log, progress)
        if trouble is None and not (root / "bin" / "pulumi").is_file():
            trouble = "the installer left no executable"
        if trouble is not None:
            return trouble
        shutil.rmtree(home / "official", ignore_errors=True)
        root.rename(home / "official")
        link.symlink_to(Path("official", "bin", "pulumi"))
        link.replace(home / "pulumi")
    return None


def _install(command: list[str | Path], log: Path, progress: Progress) -> str | None:
    """Run the installer as long as something comes; what failed, or None."""
    scratch = log.parent
    with log.open("wb") as errors:
        # The install script keeps its archive in TMPDIR and unpacks in the working directory.
        installer = subprocess.Popen(
            command,
            cwd=scratch,
            env={**os.environ, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    try:
        size, grew = 0, time.monotonic()
        while installer.poll() is None:
            time.sleep(0.2)
            if (now := _bytes(scratch)) != size:
                size, grew = now, time.monotonic()
                progress.at(size // 1_000_000)
            elif time.monotonic() - grew > STALL_SECONDS:
                return f"nothing came for {STALL_SECONDS:.0f} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(installer.pid, signal.SIGKILL)
        installer.wait()
    if installer.returncode == 0:
        return None
    said = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace")).split("\n")
    return next((line.strip() for line in reversed(said) if line.strip()), "the installer failed")


def _bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the installer moves its files about
            total += file.lstat().st_size
    return total
