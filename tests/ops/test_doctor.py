"""`python -m ops doctor` as its users run it: a process, its words, its exit code."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.files import ROOT, stack_config
from tests.support.variants import changed


def _ops(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ops", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_a_shipped_stack_is_well(stack: str) -> None:
    done = _ops("doctor", "--stack", stack)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Pulumi.{stack}.yaml: 0 errors, 0 warnings" in done.stdout


def test_every_error_is_printed_and_the_exit_code_is_one(tmp_path: Path) -> None:
    wrong = changed(
        stack_config("prod"),
        {
            "tpuserve:cluster.version": "1.36.0-gke.2459000",
            "tpuserve:tpuPools.cubes.cubes": 145,
            "tpuserve:network.proxyOnly": "172.16.0.0/27",
        },
    )
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(yaml.safe_dump({"config": wrong}))
    done = _ops("doctor", "-s", str(file))
    assert done.returncode == 1
    assert "3 errors, 0 warnings" in done.stdout
    said = ("needs 1.36.0-gke.3712000", "at most 144 cubes", "at least 64")
    assert [each for each in said if each not in done.stdout] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), ("config: [", "while parsing"), ("x: 1", "no `config:` mapping")],
)
def test_a_file_that_cannot_be_read_is_an_error_without_a_traceback(
    tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    if content is not None:
        file.write_text(content)
    done = _ops("doctor", "-s", str(file))
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_loads_neither_pulumi_nor_a_provider() -> None:
    code = (
        "import sys\nfrom ops.stack_file import read\nread('prod')\n"
        "print([name for name in sys.modules if name.split('.')[0].startswith(('pulumi', 'grpc'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_plan_shows_what_is_derived() -> None:
    done = _ops("plan", "-s", "prod")
    assert done.returncode == 0
    missing = [each for each in ("1,536.00 USD", "128", "256", "262144") if each not in done.stdout]
    assert missing == []


def test_an_unknown_command_lists_the_known_ones() -> None:
    done = _ops("doktor")
    assert done.returncode == 2
    assert "doctor" in done.stdout
