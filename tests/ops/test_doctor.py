"""`python -m ops doctor` as its users run it: a process, its words, its exit code."""

import json
import os
import subprocess
import sys
from datetime import date, time
from pathlib import Path

import pytest
import yaml

from ops.stack_file import read
from simcloud.pulumi_cli import find
from tests.support.files import ROOT, stack_config
from tests.support.variants import changed
from tools import stack_yaml


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
            "tpuserve:location.systemZones": ["us-east5-a"],
            "tpuserve:network.proxyOnly": "172.16.0.0/27",
        },
    )
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(yaml.safe_dump({"config": wrong}))
    done = _ops("doctor", "-s", str(file))
    assert done.returncode == 1
    assert "3 errors, 0 warnings" in done.stdout
    said = ("needs 1.36.0-gke.3712000", "lies in region us-east5", "at least 64")
    assert [each for each in said if each not in done.stdout] == []


def test_what_is_still_the_shipped_files_own_is_named(tmp_path: Path) -> None:
    own = {
        "gcp:project": "acme-ml",
        "tpuserve:images.modelServer": f"r.example/vllm:v0.32.0@sha256:{'1' * 64}",
    }
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(yaml.safe_dump({"config": changed(stack_config("prod"), own)}))
    (said,) = [
        line for line in _ops("doctor", "-s", str(file)).stdout.splitlines() if "yours" in line
    ]
    assert "tpuserve:serving.qwen.revision" in said
    assert "tpuserve:queueing.sliceController.image" in said
    assert "gcp:project" not in said
    assert "modelServer" not in said


SCALARS = """
config:
  tpuserve:words: {on: on, y: yes, off: OFF, version: 1.36.0-gke.1, quoted: "22", tilde: ~}
  tpuserve:times: {short: 22:00, long: 03:00:00, leading: 07:30}
  tpuserve:numbers: [017, 0o17, 0x1F, 0b11, 1_000, +12, 1e3, -1.5e-3, .5, 1.50, 0123456789]
  tpuserve:truths: [true, True, FALSE]
  tpuserve:merged: {<<: {a: 1, b: 2}, b: 3}
"""


def test_the_doctor_reads_scalars_as_the_cli_hands_them_over(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: tpuserve\nruntime: python\n")
    scratch = {"PULUMI_BACKEND_URL": f"file://{tmp_path}", "PULUMI_CONFIG_PASSPHRASE": "scratch"}

    def pulumi(*arguments: str) -> str:
        return subprocess.run(
            [str(find()), *arguments, "--stack", "mine", "--non-interactive"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **scratch},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    pulumi("stack", "init")
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(SCALARS)
    said = json.loads(pulumi("config", "--json"))
    assert stack_yaml.read(file)["config"] == {
        key: value["objectValue"] for key, value in said.items()
    }


def test_an_unquoted_start_and_day_are_what_they_look_like(tmp_path: Path) -> None:
    shipped = (ROOT / "Pulumi.prod.yaml").read_text()
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(shipped.replace('start: "03:00"', "start: 22:00"))
    assert "start: 22:00," in file.read_text()
    maintenance = read(str(file)).require().cluster.maintenance
    assert (maintenance.window.start, maintenance.exclusions["serving"].start) == (
        time(22),
        date(2026, 12, 1),
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("config: [", "while parsing"),
        ("x: 1", "no `config:` mapping"),
        ("config: {a: 1, a: 2}", "'a' stands twice"),
        ("- x", "is no mapping"),
    ],
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
