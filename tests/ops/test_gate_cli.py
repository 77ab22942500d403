"""`python -m ops gate`: exit codes, override labels, what is printed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.gate import app
from ops.gate.labels import origin, owners_labels
from ops.gate.overrides import Override, check_commit
from ops.github import GitHub
from tests.ops.fake_github import REPOSITORY, FakeGitHub
from tests.ops.previews import COMMIT, EVENTS

CLUSTER_URN = (
    "urn:pulumi:prod::tpuserve::tpuserve:cluster:Cluster$gcp:container/cluster:Cluster::cluster-gke"
)
MERGED = "c" * 40


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_a_plan_without_risk_passes() -> None:
    result = run(EVENTS / "no-change.jsonl")
    assert result.exit_code == 0, result.output
    assert "prod: passes" in result.output


def test_a_replaced_cluster_is_refused_with_the_text_that_would_allow_it() -> None:
    result = run(EVENTS / "replace-cluster.jsonl", "--commit", COMMIT)
    assert result.exit_code == 1
    assert f"allow G1 replace {CLUSTER_URN} at {COMMIT}" in result.output


def test_the_printed_sentences_given_back_let_it_through(tmp_path: Path) -> None:
    source = EVENTS / "replace-cluster.jsonl"
    refused = run(source, "--commit", COMMIT).output
    sentences = [line.strip() for line in refused.splitlines() if line.strip()[:6] == "allow "]
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("# agreed on the call\n" + "\n".join(sentences))
    result = run(source, "--commit", COMMIT, "--allow-file", allowed)
    assert result.exit_code == 0, result.output
    assert run(source, "--commit", "f" * 40, "--allow-file", allowed).exit_code == 1


def test_the_printed_labels_given_back_let_it_through() -> None:
    source = EVENTS / "delete-and-replace.jsonl"
    refused = run(source, "--commit", COMMIT).output
    (label,) = [line.split()[-1] for line in refused.splitlines() if "label: " in line]
    assert len(label) <= 50
    assert run(source, "--commit", COMMIT, "--allow", label).exit_code == 0


@pytest.mark.parametrize("name", ["program-error", "protected"])
def test_a_preview_that_broke_off_cannot_be_judged(name: str) -> None:
    result = run(EVENTS / f"{name}.jsonl")
    assert result.exit_code == 2
    assert "did not finish" in result.output


def test_an_empty_log_cannot_be_judged(tmp_path: Path) -> None:
    empty = tmp_path / "events.jsonl"
    empty.write_text("")
    assert run(empty).exit_code == 2


@pytest.mark.parametrize("commit", ["main", "abc123", "HEAD", "G" * 40, COMMIT.upper()])
def test_only_a_full_commit_id_can_be_named(commit: str) -> None:
    result = run(EVENTS / "resize.jsonl", "--commit", commit)
    assert result.exit_code == 2
    with pytest.raises(ValueError, match="not a full commit id"):
        check_commit(commit)


def test_json_lists_every_finding_of_every_stack() -> None:
    result = run(EVENTS / "replace-cluster.jsonl", "--commit", COMMIT, "--json")
    verdicts = json.loads(result.output)
    assert {each["gate"] for each in verdicts["prod"]} == {"G1", "G2", "G3"}
    assert all(each["label"].startswith("gate-ok/") for each in verdicts["prod"])


def test_a_budget_can_be_given() -> None:
    result = run(EVENTS / "resize.jsonl", "--budget", 100)
    assert result.exit_code == 1
    assert "its budget is $100.00" in result.output


def _label(commit: str = COMMIT) -> str:
    return Override(gate="G1", operation="replace", subject=CLUSTER_URN, commit=commit).label


def test_a_label_counts_only_from_an_owner() -> None:
    github = FakeGitHub()
    github.label(_label(), by="mallory")
    found = owners_labels(github.client, 7, ["Ada"])
    assert found.valid == ()
    assert "mallory is not in overrideOwners" in found.notes[0]
    github.label(_label(), by="ada")
    assert _label() in owners_labels(github.client, 7, ["Ada"]).valid


def test_a_label_put_back_by_somebody_else_stops_counting() -> None:
    github = FakeGitHub()
    github.label(_label(), by="ada")
    github.labels.remove(_label())
    github.label(_label(), by="mallory")
    assert owners_labels(github.client, 7, ["ada"]).valid == ()


def test_without_owners_no_label_counts() -> None:
    github = FakeGitHub()
    github.label(_label(), by="")
    assert owners_labels(github.client, 7, []).valid == ()


def test_a_squashed_commit_stands_for_the_reviewed_one_if_nothing_else_came_in() -> None:
    github = FakeGitHub()
    github.pulls[MERGED] = [{"number": 7, "merged_at": "2026-11-30", "head": {"sha": COMMIT}}]
    github.trees = {MERGED: "tree-1", COMMIT: "tree-1"}
    found = origin(github.client, MERGED)
    assert found
    assert (found.pull, found.head) == (7, COMMIT)
    github.trees[MERGED] = "tree-2"
    assert origin(github.client, MERGED) is None


def test_before_apply_the_reviewed_label_counts_for_the_merged_commit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    github = FakeGitHub()
    github.pulls[MERGED] = [{"number": 7, "merged_at": "2026-11-30", "head": {"sha": COMMIT}}]
    github.trees = {MERGED: "tree-1", COMMIT: "tree-1"}
    source = EVENTS / "replace-cluster.jsonl"
    findings = json.loads(run(source, "--commit", COMMIT, "--json").output)["prod"]
    for finding in findings:
        github.label(finding["label"], by="ada")
    monkeypatch.setattr(GitHub, "open", lambda *_args, **_kwargs: github.client)
    settings = tmp_path / "gates.yaml"
    text = (Path("ops/gate/gates.yaml")).read_text()
    settings.write_text(text.replace("overrideOwners: []", "overrideOwners: [ada]"))
    arguments = (source, "--commit", MERGED, "--repository", REPOSITORY, "--settings", settings)
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    github.trees[MERGED] = "tree-2"
    assert run(*arguments).exit_code == 1
