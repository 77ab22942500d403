"""The .venv: made once, and again only when what it is made from changes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import lock, venv


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose requirements are all empty, so that pip has nothing to fetch."""
    for name, value in {
        "ROOT": tmp_path,
        "VENV": tmp_path / ".venv",
        "PYTHON": tmp_path / ".venv" / "bin" / "python",
        "STAMP": tmp_path / ".venv" / ".tpuserve",
    }.items():
        monkeypatch.setattr(venv, name, value)
    (tmp_path / "requirements-dev.txt").write_text("-r requirements.txt\n")
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    return tmp_path


@pytest.fixture
def quick(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A .venv whose Python only answers what `set_up` asks; how often it was made."""
    made: list[str] = []

    def make() -> None:
        made.append("made")
        venv.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        (venv.PYTHON.parent / "activate").write_text(f"VIRTUAL_ENV={venv.VENV}\n")
        major, minor = sys.version_info[:2]
        venv.PYTHON.write_text(
            f"#!/bin/sh\ncase $2 in pip) test ! -e {project}/offline;;"
            f" *) echo {major} {minor};; esac\n"
        )
        venv.PYTHON.chmod(0o755)

    monkeypatch.setattr(venv, "_make", make)
    return made


def test_a_second_run_starts_no_process(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    venv.set_up()
    assert "Installing" in capsys.readouterr().out
    made = (project / ".venv" / "pyvenv.cfg").stat().st_mtime_ns
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: pytest.fail("nothing to do"))
    venv.set_up()
    assert (project / ".venv" / "pyvenv.cfg").stat().st_mtime_ns == made
    assert capsys.readouterr().out == ""


def test_a_changed_pin_in_an_included_file_is_noticed(project: Path) -> None:
    before = venv.stamp(project / "requirements-dev.txt")
    (project / "requirements.txt").write_text("# something\n")
    assert venv.stamp(project / "requirements-dev.txt") != before


def test_a_failed_install_is_not_taken_for_done(project: Path, quick: list[str]) -> None:
    (project / "offline").touch()
    with pytest.raises(SystemExit, match="pip failed"):
        venv.set_up()
    assert not venv.STAMP.exists()
    (project / "offline").unlink()
    venv.set_up()
    assert venv.STAMP.read_text() == venv.stamp(project / "requirements-dev.txt")
    assert quick == ["made"]


def test_a_changed_pin_keeps_the_venv_and_installs_again(
    project: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    venv.set_up()
    (project / "requirements.txt").write_text("# something\n")
    capsys.readouterr()
    venv.set_up()
    assert "Installing" in capsys.readouterr().out
    assert quick == ["made"]


@pytest.mark.parametrize("fault", ["moved", "of another Python"])
def test_a_venv_that_cannot_work_here_is_made_anew(quick: list[str], fault: str) -> None:
    venv.set_up()
    venv.STAMP.write_text("of another place")
    if fault == "moved":
        (venv.PYTHON.parent / "activate").write_text("VIRTUAL_ENV=/elsewhere/.venv\n")
    else:
        venv.PYTHON.write_text("#!/bin/sh\necho 3 10\n")
    venv.set_up()
    assert quick == ["made", "made"]


def test_a_python_without_the_venv_part_names_the_package(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit, match=r"apt-get install python3\.\d+-venv"):
        venv.set_up()
    assert not (project / ".venv").exists()


def test_an_older_python_is_told_so(tmp_path: Path) -> None:
    old = tmp_path / "old.py"
    old.write_text(
        "import runpy, sys\n"
        "sys.version_info = (3, 9, 2)\n"
        "runpy.run_module('tools.venv', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, old],
        env={"PYTHONPATH": str(venv.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "make PYTHON=" in done.stderr


class TestPins:
    """A set-up is the same today and next year."""

    def test_every_requirement_is_pinned_exactly(self) -> None:
        pins = lock.chosen() | set(_lines(lock.LOCK))
        assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []

    def test_nothing_is_pinned_in_two_places(self) -> None:
        names = [re.split("==", pin)[0].lower().replace("_", "-") for pin in _lines(lock.LOCK)]
        own = {pin.split("==")[0].lower().replace("_", "-") for pin in lock.chosen()}
        assert [name for name in names if name in own] == []

    def test_the_commands_and_the_checks_include_the_program(self) -> None:
        files = [file.name for file in venv.requirement_files(venv.ROOT / venv.WANTED)]
        assert files[:3] == ["requirements-dev.txt", "requirements-ops.txt", "requirements.txt"]


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
