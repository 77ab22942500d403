"""The Pulumi CLI the project runs on: the one on PATH, else the official download, else a build.

`python -m tools.cli` finds or makes it, then prints its version, origin and path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from semver import VersionInfo

from tools import build, download
from tools.alone import alone
from tools.progress import SetupError

VERSION = build.pinned("github.com/pulumi/pulumi/pkg/v3").removeprefix("v")
"""The version tools/go.mod pins: what is downloaded or built when PATH has none that fits."""

MINIMUM = VersionInfo(3, 272, 0)
"""Oldest CLI taken from PATH: the version of the Python SDK in requirements.txt, the one its
Automation API installs by itself. (Policy packs that are executables need 3.255.)"""


def cache_dir() -> Path:
    """Where this version is kept, once for all clones of a user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tpuserve" / f"pulumi-{VERSION}"


def find() -> Path | None:
    """The CLI that is here already: a fitting one on PATH, else the cached one."""
    on_path = _on_path()
    if on_path and unfit(version(on_path)) is None:
        return on_path
    cached = cache_dir() / "pulumi"
    return cached if os.access(cached, os.X_OK) else None


def ensure(console: Console) -> Path:
    """The CLI, downloaded or built first if need be; at most one set-up makes it at a time."""
    path = find() or _make(console)
    if why := unfit(version(path)):
        msg = f"{path} does not work ({why}): remove it and run this again"
        raise SetupError(msg)
    return path


def origin(path: Path) -> str:
    """Where a CLI that `find` or `ensure` gave comes from, in words."""
    if path != cache_dir() / "pulumi":
        return "on PATH"
    return "official download" if path.is_symlink() else "built from tools/go.mod"


def version(executable: Path) -> str:
    """What `pulumi version` says; empty if it does not answer."""
    try:
        done = subprocess.run(
            [executable, "version"],
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def unfit(said: str) -> str | None:
    """Why a CLI that calls itself this version is not used; None if it fits."""
    try:
        parsed = VersionInfo.parse(said.removeprefix("v"))
    except ValueError:
        # A build without a version stamp; the Automation API refuses it too.
        return f"which gives no version (it says {said!r})"
    if parsed.major != MINIMUM.major:
        return f"version {parsed}, where the Python SDK speaks to {MINIMUM.major}.x alone"
    if parsed < MINIMUM:
        return f"version {parsed}, older than {MINIMUM}"
    return None


def _make(console: Console) -> Path:
    home = cache_dir()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot keep the Pulumi CLI in {home} ({error.strerror}): set XDG_CACHE_HOME"
        raise SetupError(msg) from error
    with alone(home, lambda text: console.print(text, soft_wrap=True)):
        if (path := find()) is not None:  # another set-up made it meanwhile
            return path
        if on_path := _on_path():
            console.print(f"Not used: {on_path}, {unfit(version(on_path))}.", soft_wrap=True)
        return download.official(home, VERSION, console) or build.build(home, VERSION, console)


def _on_path() -> Path | None:
    found = shutil.which("pulumi")
    return Path(found) if found else None


def main() -> int:
    console = Console(highlight=False)
    try:
        path = ensure(console)
    except SetupError as error:
        Console(stderr=True, highlight=False).print(f"Set-up: {error}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Stopped. What is done is kept: run the same command again to go on.")
        return 130
    console.print(f"Pulumi {version(path)}, {origin(path)}: {path}", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
