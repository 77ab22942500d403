"""Rewrite constraints.txt: the exact version of all that the pinned packages bring with them.

make lock
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.venv import ROOT, WANTED, requirement_files

LOCK = Path(__file__).parent / "constraints.txt"
HEAD = """\
# Versions of everything requirements-dev.txt brings with it, so that every set-up is the same.
# Written by `make lock`; the packages chosen by hand are pinned in the requirements files.
"""


def main() -> None:
    """Resolve the requirements in an empty environment and keep what was chosen."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
        wishes = scratch / "requirements.txt"
        wishes.write_text("\n".join(sorted(chosen())) + "\n")
        python = scratch / "venv" / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-q", "--no-compile", "-r", wishes], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    own = {_name(line) for line in chosen()}
    rest = [line for line in frozen.splitlines() if _name(line) not in own]
    LOCK.write_text(HEAD + "\n".join(rest) + "\n")


def _name(pin: str) -> str:
    return pin.partition("==")[0].lower().replace("_", "-")


def chosen() -> set[str]:
    """The pins of the requirements files themselves."""
    files = [file for file in requirement_files(ROOT / WANTED) if file != LOCK]
    lines = {line.strip() for file in files for line in file.read_text().splitlines()}
    return {line for line in lines if line and line[0] not in "#-"}


if __name__ == "__main__":
    main()
