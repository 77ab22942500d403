"""The project's .venv with the pinned packages; does nothing when it has them already.

Run by the system's Python before anything is installed, hence the standard library alone.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.alone import alone

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".tpuserve"
WANTED = "requirements-dev.txt"


def requirement_files(start: Path) -> list[Path]:
    """A requirements file and all that it includes, in reading order."""
    files = [start]
    for line in start.read_text().splitlines():
        option, _, name = line.partition(" ")
        if option in {"-r", "-c"}:
            files += requirement_files(start.parent / name.strip())
    return files


def stamp(start: Path) -> str:
    """What a finished .venv was made from: its place, its Python, every pin."""
    digest = hashlib.sha256(f"{ROOT}\n{sys.base_prefix}\n{sys.version}\n".encode())
    for file in requirement_files(start):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def set_up() -> None:
    """Make .venv or bring it up to date."""
    wanted = stamp(ROOT / WANTED)
    with alone(ROOT, say):
        if STAMP.is_file() and STAMP.read_text() == wanted and PYTHON.exists():
            return
        STAMP.unlink(missing_ok=True)
        if not _usable():
            _make()
        say("Installing the pinned packages into .venv: about a minute, this once.")
        pip: list[str | Path] = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "install", "--quiet", "--no-compile", "-r", WANTED], "pip failed")
        # On all cores; otherwise the first import of the providers pays for it, on one.
        compiling: list[str | Path] = [PYTHON, "-m", "compileall", "-q", "-j", "0", VENV / "lib"]
        subprocess.run(compiling, check=False)
        STAMP.write_text(wanted)


def _usable() -> bool:
    """Whether .venv works with the Python that runs this, and was made in this place."""
    ask = "import sys, pip; print(*sys.version_info[:2])"
    try:
        at_home = str(VENV) in (VENV / "bin" / "activate").read_text()
        done = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return at_home and done.stdout.split() == [str(part) for part in sys.version_info[:2]]


def _make() -> None:
    try:
        import ensurepip  # noqa: F401, PLC0415 Debian ships venv without it
    except ImportError:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        fail(
            f"{sys.executable} cannot make a virtual environment: Debian keeps that part in a"
            f" package of its own. As root: apt-get install python{version}-venv"
        )
    _run([sys.executable, "-m", "venv", "--clear", VENV], "venv failed")


def _run(command: list[str | Path], trouble: str) -> None:
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        fail(f"{trouble} (see above). Nothing is lost: run the same command again.")


def say(text: str) -> None:
    """A line of progress."""
    print(text, flush=True)


def fail(text: str) -> None:
    """End with a message."""
    sys.exit(f"Set-up: {text}")


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 a fresh machine's python3 may be older
        fail(
            f"needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}."
            " Name another one: make PYTHON=python3.12 ..."
        )
    set_up()
