"""The guide's commands for a machine without an account run as written."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.files import ROOT

pytestmark = pytest.mark.engine

GUIDE = (ROOT / "docs" / "serve-a-model.md").read_text()
SECTION = GUIDE.partition("## Without a cloud account")[2].partition("\n## ")[0]
COMMANDS = re.search(r"```sh\n(.*?)```", SECTION, re.DOTALL)


def _run(line: str, scratch: Path) -> str:
    """One line of the guide, with its simulated cloud in a scratch folder."""
    python, *arguments = shlex.split(line)
    assert python == "python", line
    if arguments[:2] == ["-m", "simcloud"]:
        arguments += ["--root", str(scratch)]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_guide_runs_as_written(tmp_path: Path) -> None:
    assert COMMANDS
    said = {line: _run(line, tmp_path) for line in COMMANDS.group(1).splitlines()}
    assert len(said) == 6
    assert "0 errors, 0 warnings" in said["python -m ops doctor -s dev"]
    up = said["python -m simcloud up -s dev"]
    assert re.search(r"llama-server created", up)
    outputs = json.loads(said["python -m simcloud outputs -s dev"])
    assert outputs["endpoints"]["llama"]["model"] == "meta-llama/Llama-3.1-70B-Instruct"
    assert {"cluster", "storage", "endpoints", "dashboards", "verify"} <= set(outputs)


def test_the_example_on_autopilot_runs_as_written(tmp_path: Path) -> None:
    (line,) = re.findall(r"`(python -m simcloud up -s examples/\S+)`", SECTION)
    assert "llama-server created" in _run(line, tmp_path)
