"""`python -m ops report`: files written, exit codes, what reaches GitHub."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.github import GitHub
from ops.report import app
from tests.ops.fake_github import REPOSITORY, FakeGitHub
from tests.ops.previews import COMMIT, EVENTS

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN\n-----END PRIVATE KEY-----\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_a_report_is_shown_and_written_as_markdown_and_json(tmp_path: Path) -> None:
    comment, summary = tmp_path / "deep" / "comment.md", tmp_path / "report.json"
    result = run("render", EVENTS / "resize.jsonl", "--markdown", comment, "--json", summary, "-v")
    assert result.exit_code == 0, result.output
    assert "prod: blocked by 1 gate" in result.output
    assert "+ nodeCount: 2" in result.output
    assert comment.read_text().splitlines()[1].startswith("**prod: blocked by 1 gate**")
    assert json.loads(summary.read_text())["stacks"][0]["counts"] == {"same": 12, "update": 1}


@pytest.mark.parametrize(
    ("name", "code"), [("no-change", 0), ("mandatory", 1), ("program-error", 1), ("resize", 1)]
)
def test_strict_turns_the_verdict_into_an_exit_code(name: str, code: int) -> None:
    assert run("render", EVENTS / f"{name}.jsonl", "--strict").exit_code == code


def test_a_folder_that_a_failed_run_left_makes_a_comment(tmp_path: Path) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    (folder / "output.txt").write_text("error: could not lock the state\n")
    (folder / "exit-code").write_text("255")
    comment = tmp_path / "comment.md"
    assert run("render", folder, "--markdown", comment).exit_code == 0
    assert "**prod: failed**" in comment.read_text()
    assert "could not lock the state" in comment.read_text()


def test_a_shortened_commit_is_refused() -> None:
    result = run("render", EVENTS / "resize.jsonl", "--commit", "abc123")
    assert result.exit_code == 2
    assert "not a full commit id" in result.output


def test_the_secrets_of_the_configuration_are_blanked_everywhere(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"tpuserve:x": {"value": "us-central1-a", "secret": True}}))
    comment, summary = tmp_path / "comment.md", tmp_path / "report.json"
    result = run(
        "render",
        EVENTS / "delete-and-replace.jsonl",
        "--config-secrets",
        config,
        "--markdown",
        comment,
        "--json",
        summary,
        "-v",
    )
    assert result.exit_code == 0, result.output
    told = result.output + comment.read_text() + summary.read_text()
    assert "us-central1-a" not in told


def test_a_file_that_is_no_configuration_is_an_error_that_shows_nothing_of_it(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.json"
    config.write_text("password: hunter2-hunter2")
    result = run("render", EVENTS / "resize.jsonl", "--config-secrets", config)
    assert result.exit_code == 2
    assert "hunter2" not in result.output


def test_a_log_is_stored_without_secrets_and_reports_the_same(tmp_path: Path) -> None:
    source, target = tmp_path / "raw.jsonl", tmp_path / "events.jsonl"
    shutil.copy(EVENTS / "delete-and-replace.jsonl", source)
    with source.open("a") as file:
        file.write(f"a line between\n{PEM}")
    assert run("redact", source, target).exit_code == 0
    text = target.read_text()
    assert "hf_BBBB" not in text
    assert "IBADAN" not in text
    assert "a line between" in text
    before, after = (run("render", path, "-v").output for path in (source, target))
    assert [line for line in after.splitlines() if "could not be read" not in line] == [
        line for line in before.splitlines() if "could not be read" not in line
    ]


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> FakeGitHub:
    fake = FakeGitHub()
    monkeypatch.setattr(GitHub, "open", lambda *_args, **_kwargs: fake.client)
    return fake


def _rendered(tmp_path: Path, name: str) -> tuple[Path, Path]:
    comment, summary = tmp_path / "comment.md", tmp_path / "report.json"
    run("render", EVENTS / f"{name}.jsonl", "--markdown", comment, "--json", summary)
    return comment, summary


def test_a_rendered_report_becomes_one_comment_and_its_labels(
    github: FakeGitHub, tmp_path: Path
) -> None:
    for name in ("mandatory", "no-change"):
        comment, summary = _rendered(tmp_path, name)
        result = run("post", comment, "--json", summary, "--repository", REPOSITORY, "--pull", 7)
        assert result.exit_code == 0, result.output
    assert len(github.comments) == 1
    assert "**prod: no changes**" in github.comments[0]["body"]
    assert github.labels == ["iac/no-change"]


def test_a_file_without_the_marker_is_not_posted(github: FakeGitHub, tmp_path: Path) -> None:
    comment = tmp_path / "comment.md"
    comment.write_text("all is well")
    result = run("post", comment, "--repository", REPOSITORY, "--pull", 7)
    assert result.exit_code == 2
    assert github.comments == []


def test_override_labels_show_in_the_report(github: FakeGitHub, tmp_path: Path) -> None:
    comment, summary = tmp_path / "comment.md", tmp_path / "report.json"
    source = EVENTS / "delete-and-replace.jsonl"
    arguments = ["render", source, "--commit", COMMIT, "--json", summary, "--markdown", comment]
    run(*arguments)
    (gate,) = json.loads(summary.read_text())["stacks"][0]["gates"]
    github.label(gate["label"], by="ada")
    settings = tmp_path / "gates.yaml"
    text = Path("ops/gate/gates.yaml").read_text()
    settings.write_text(text.replace("overrideOwners: []", "overrideOwners: [ada]"))
    more = ["--repository", REPOSITORY, "--pull", 7, "--settings", settings]
    assert run(*arguments, *more).exit_code == 0
    assert "(allowed)" in comment.read_text()
    assert "**prod: changes**" in comment.read_text()
