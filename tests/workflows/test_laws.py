"""Laws every workflow keeps: pinned actions, least permissions, no secret near strangers' code."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import cli

FOLDER = Path(__file__).resolve().parents[2] / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))

# Read from the tags of each repository in 2026-11; see docs/pull-requests.md, "Pinned actions".
KNOWN = {
    "actions/checkout": "3d3c42e5aac5ba805825da76410c181273ba90b1",
    "actions/setup-python": "5fda3b95a4ea91299a34e894583c3862153e4b97",
    "actions/upload-artifact": "bbbca2ddaa5d8feaa63e36b76fdaad77386f024f",
    "actions/download-artifact": "3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c",
    "google-github-actions/auth": "7c6bc770dae815cd3e89ee6cdf493a5fab2cc093",
    "pulumi/actions": "8e5e406f4007fca908480587cb9893c07090f58d",
}
# Which job may do what beyond reading the code.
ALLOWED = {
    ("preview.yml", "cloud"): {"id-token": "write"},
    ("preview.yml", "comment"): {"pull-requests": "write"},
    ("stack.yml", "run"): {"id-token": "write", "pull-requests": "read"},
    ("apply.yml", "plan-dev"): {"id-token": "write", "pull-requests": "read"},
    ("apply.yml", "apply-dev"): {"id-token": "write", "pull-requests": "read"},
    ("apply.yml", "plan-prod"): {"id-token": "write", "pull-requests": "read"},
    ("apply.yml", "apply-prod"): {"id-token": "write", "pull-requests": "read"},
    ("drift.yml", "drift"): {"id-token": "write"},
}


def load(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    # YAML 1.1 reads the key `on` as true.
    return {"on" if key is True else key: value for key, value in loaded.items()}


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path in FILES:
        for name, job in load(path)["jobs"].items():
            yield path.name, name, job


def steps() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for file, name, job in jobs():
        for step in job.get("steps", []):
            yield file, name, step


def uses() -> Iterator[str]:
    for path in FILES:
        yield from re.findall(r"^\s*(?:- )?uses: (.+)$", path.read_text(), re.MULTILINE)


def test_there_are_workflows_to_judge() -> None:
    assert {path.name for path in FILES} == {
        "apply.yml",
        "check.yml",
        "drift.yml",
        "preview.yml",
        "stack.yml",
    }


def test_every_action_is_pinned_by_a_known_commit_with_its_version_beside() -> None:
    pinned = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+")
    foreign = [line for line in uses() if not line.startswith("./")]
    assert foreign
    matches = [(line, pinned.fullmatch(line)) for line in foreign]
    assert [line for line, match in matches if not match] == []
    assert [line for line, match in matches if match and KNOWN.get(match[1]) != match[2]] == []


def test_the_engine_of_ci_is_the_one_that_is_tested() -> None:
    asked = [step["with"]["pulumi-version"] for _, _, step in steps() if _installs_pulumi(step)]
    assert asked
    assert set(asked) == {cli.VERSION}


def _installs_pulumi(step: dict[str, Any]) -> bool:
    return str(step.get("uses", "")).startswith("pulumi/actions@")


def test_no_workflow_has_permissions_of_its_own() -> None:
    assert [path.name for path in FILES if load(path).get("permissions") != {}] == []


def test_every_job_states_exactly_the_permissions_it_needs() -> None:
    found = {
        (file, name): {
            k: v for k, v in job["permissions"].items() if (k, v) != ("contents", "read")
        }
        for file, name, job in jobs()
    }
    assert {key: value for key, value in found.items() if value} == ALLOWED


def test_no_checkout_leaves_credentials_behind() -> None:
    checkouts = [
        (file, job, step)
        for file, job, step in steps()
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert len(checkouts) >= 5
    careless = [
        (file, job)
        for file, job, step in checkouts
        if step.get("with", {}).get("persist-credentials") is not False
    ]
    assert careless == []


def test_every_job_has_a_time_limit() -> None:
    endless = [
        (file, name)
        for file, name, job in jobs()
        if "timeout-minutes" not in job and "uses" not in job
    ]
    assert endless == []


def test_no_workflow_is_triggered_with_a_token_for_strangers() -> None:
    dangerous = {"pull_request_target", "workflow_run", "issue_comment"}
    assert [path.name for path in FILES if dangerous & set(load(path)["on"])] == []


def test_no_label_can_start_a_run_that_skips_what_failed() -> None:
    types = [
        load(path)["on"].get("pull_request") or {}
        for path in FILES
        if "pull_request" in load(path)["on"]
    ]
    started = {kind for each in types for kind in each.get("types", [])}
    assert started & {"labeled", "unlabeled", "edited"} == set()


def test_no_workflow_uses_a_stored_secret() -> None:
    assert [path.name for path in FILES if "secrets." in path.read_text()] == []


def test_scripts_take_values_from_the_environment_only() -> None:
    spliced = [
        (file, job, step.get("name"))
        for file, job, step in steps()
        if "${{" in str(step.get("run", ""))
    ]
    assert spliced == []


def test_the_job_forks_get_holds_no_credential() -> None:
    job = load(FOLDER / "preview.yml")["jobs"]["simulated"]
    text = yaml.safe_dump(job)
    assert job["permissions"] == {"contents": "read"}
    assert "environment" not in job
    found = [word for word in ("secrets", "token", "id-token", "auth@", "vars.") if word in text]
    assert found == []


@pytest.mark.parametrize("name", ["cloud", "comment"])
def test_jobs_with_rights_are_closed_to_forks(name: str) -> None:
    condition = load(FOLDER / "preview.yml")["jobs"][name]["if"]
    assert "head.repo.full_name == github.repository" in condition


def test_the_job_that_may_comment_runs_only_code_of_the_base_branch() -> None:
    job = load(FOLDER / "preview.yml")["jobs"]["comment"]
    checkouts = [step for step in job["steps"] if "checkout@" in step.get("uses", "")]
    assert [step["with"]["ref"] for step in checkouts] == [
        "${{ github.event.pull_request.base.sha }}"
    ]


def test_the_comment_is_posted_even_if_a_preview_failed() -> None:
    job = load(FOLDER / "preview.yml")["jobs"]["comment"]
    assert "!cancelled()" in job["if"]
    for name in ("simulated", "cloud"):
        preview = load(FOLDER / "preview.yml")["jobs"][name]
        upload = [step for step in preview["steps"] if "upload-artifact@" in step.get("uses", "")]
        assert [step["if"] for step in upload] == ["always()"]
        assert "Fail" in preview["steps"][-1]["name"]


def test_credentials_are_asked_for_only_behind_an_environment() -> None:
    open_doors = [
        (file, name)
        for file, name, job in jobs()
        if job["permissions"].get("id-token") == "write"
        if "environment" not in job and "uses" not in job
    ]
    assert open_doors == []


def test_an_update_is_never_cancelled_and_never_skips_its_preview() -> None:
    updating = [path for path in FILES if "pulumi up" in path.read_text()]
    assert [path.name for path in updating] == ["stack.yml"]
    job = load(updating[0])["jobs"]["run"]
    assert job["concurrency"] == {
        "group": "pulumi-${{ inputs.stack }}",
        "cancel-in-progress": False,
    }
    assert "--skip-preview" not in updating[0].read_text()


def test_a_fresh_preview_and_the_gate_come_before_the_update() -> None:
    names = [step.get("name") for step in load(FOLDER / "stack.yml")["jobs"]["run"]["steps"]]
    assert names.index("Preview") < names.index("Gate") < names.index("Update")


def test_the_plan_and_the_update_of_a_stack_use_different_identities() -> None:
    called = {name: job["with"] for _, name, job in jobs() if "uses" in job}
    environments = {name: given["environment"] for name, given in called.items()}
    assert environments == {
        "plan-dev": "preview-dev",
        "apply-dev": "dev",
        "plan-prod": "preview-prod",
        "apply-prod": "prod",
    }
    assert {name for name, given in called.items() if given.get("apply")} == {
        "apply-dev",
        "apply-prod",
    }


def test_every_preview_names_the_policy_pack() -> None:
    previews = [
        (path.name, line)
        for path in FILES
        for line in re.findall(
            r"(?:pulumi|simcloud) preview(?:[^\n]*\\\n)*[^\n]*", path.read_text()
        )
        if "--stack" in line and "--expect-no-changes" not in line
    ]
    assert len(previews) >= 3
    assert [each for each in previews if '--policy-pack "$PWD/policies/run"' not in each[1]] == []


def test_zizmor_finds_nothing() -> None:
    zizmor = Path(sys.executable).with_name("zizmor")
    if not zizmor.exists():
        pytest.skip("zizmor is not installed")
    run = subprocess.run(
        [zizmor, "--offline", "--no-progress", FOLDER],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_actionlint_finds_nothing() -> None:
    actionlint = shutil.which("actionlint")
    if not actionlint:
        pytest.skip("actionlint is not on PATH")
    run = subprocess.run(
        [actionlint, *map(str, FILES)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout
