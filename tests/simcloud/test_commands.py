"""`python -m simcloud`: what a user types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from simcloud.__main__ import app
from simcloud.provider_process import ProviderProcess

pytestmark = pytest.mark.engine

NETWORK = "gcp:compute/network:Network"


@pytest.fixture
def project(tmp_path: Path) -> list[str]:
    """A program, its stack file, and the options every command takes."""
    main = tmp_path / "__main__.py"
    main.write_text(
        "import pulumi\n"
        f"net = pulumi.CustomResource('{NETWORK}', 'fabric', {{'name': 'fabric'}})\n"
        "pulumi.export('network', net.id)\n"
        "pulumi.export('token', pulumi.Output.secret('hunter2'))\n"
    )
    config = {"config": {"gcp:project": "my-project"}}
    (tmp_path / "Pulumi.dev.yaml").write_text(yaml.safe_dump(config))
    return ["-s", "dev", "--program", str(main), "--root", str(tmp_path / ".sim")]


def run(command: str, options: list[str], *more: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, [command, *options, *more])
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def test_a_stack_comes_and_goes(project: list[str], tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    shown, notice = run("preview", project)
    assert "2 to create" in shown
    assert "nothing real was touched" in notice
    run("up", project, "--scale", "0", "--event-log", str(log))
    assert any("resOutputsEvent" in line for line in log.read_text().splitlines())
    printed, _ = run("outputs", project)
    assert json.loads(printed)["token"] == "[secret]"
    assert json.loads(printed)["network"].startswith("simulated/")
    events, _ = run("preview", project, "--json")
    kinds = [
        next(iter(json.loads(line).keys() - {"sequence", "timestamp"}))
        for line in events.splitlines()
    ]
    assert "summaryEvent" in kinds
    refreshed, _ = run("refresh", project)
    assert "2 unchanged" in refreshed
    gone, _ = run("destroy", project, "--scale", "0")
    assert "2 deleted" in gone


def test_a_fault_ends_the_command_with_its_reason(project: list[str]) -> None:
    _, told = run("up", project, "--faults", "create Network=quota", code=1)
    assert "quotaExceeded" in told
    assert "Traceback" not in told
    _, told = run("up", project, "--faults", "creat Network=quota", code=1)
    assert "Did you mean 'create'" in re.sub(r"\s+", " ", told)


def test_faults_and_scale_of_the_environment_are_checked(
    project: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIM_FAULTS", "crete NodePol=quota")
    run("up", project, code=1)
    told = capfd.readouterr().err
    assert "Did you mean 'create'" in told
    assert "Did you mean 'NodePool'" in told
    assert "Traceback" not in told
    monkeypatch.setenv("SIM_SCALE", "abc")
    _, told = run("up", project, code=1)
    assert "SIM_SCALE='abc': seconds per simulated minute" in told
    run("up", project, "--scale", "-1", code=2)


def test_the_scale_of_the_environment_is_the_default(
    project: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(
        "simcloud.engine.ProviderProcess",
        lambda folder, env: started.append(env["SIM_SCALE"]) or ProviderProcess(folder, env),
    )
    monkeypatch.setenv("SIM_SCALE", "0")
    run("preview", project)
    run("up", project, "--scale", "0.001")
    monkeypatch.delenv("SIM_SCALE")
    run("preview", project)
    assert started == ["0.0", "0.001", "0.05"]


def test_the_demo_leaves_nothing_behind(project: list[str], tmp_path: Path) -> None:
    stack = str(tmp_path / "Pulumi.dev.yaml")
    shown, _ = run("demo", [*project[2:], "-s", stack], "--scale", "0")
    assert "preview again" in shown
    assert "left behind: nothing" in shown
