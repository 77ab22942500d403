"""Slices that nobody uses are found, and what is advised frees them and nothing else."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.slices import app
from ops.slices.held import held, leftovers

GONE_AT = "2026-11-30T00:00:00Z"

KUBECTL = """#!{python}
import json, sys
table = json.loads(open({table!r}).read())
kind = sys.argv[sys.argv.index("get") + 1].split(".")[0]
print(json.dumps({{"items": table[kind]}}))
"""


def slice_(name: str, workload: str | None, *, ready: bool = True) -> dict[str, Any]:
    owner = (
        {
            "accelerator.gke.io/owner-workload-namespace": "llm",
            "accelerator.gke.io/owner-workload-name": workload,
        }
        if workload
        else {}
    )
    return {
        "metadata": {"name": name, "annotations": owner},
        "spec": {"topology": "2x2x1", "partitionIds": ["p"]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def going(found: dict[str, Any]) -> dict[str, Any]:
    """Deleted, and kept by its finalizer."""
    kept = {"deletionTimestamp": GONE_AT, "finalizers": ["accelerator.gke.io/slice"]}
    return {**found, "metadata": {**found["metadata"], **kept}}


def workload(name: str, *, active: bool = True, lws: str | None = None, **conditions: bool) -> Any:
    return {
        "metadata": {
            "namespace": "llm",
            "name": name,
            "ownerReferences": [{"kind": "LeaderWorkerSet", "name": lws}] if lws else [],
        },
        "spec": {"active": active},
        "status": {
            "conditions": [
                {"type": key.capitalize(), "status": str(value)}
                for key, value in conditions.items()
            ]
        },
    }


@pytest.mark.parametrize(
    ("found", "owner", "state", "advice"),
    [
        (slice_("a", "w"), workload("w", admitted=True), "in use", ""),
        (slice_("a", "w", ready=False), workload("w", admitted=True), "forming", ""),
        (slice_("a", "w"), None, "held by nobody", "kubectl delete slice a"),
        (slice_("a", "w"), workload("w", evicted=True, admitted=False, lws="qwen-decode-0"),
         "held by an evicted workload", "delete leaderworkerset qwen-decode-0"),
        (slice_("a", "w"), workload("w", active=False, admitted=True, lws="qwen-decode-0"),
         "held by an evicted workload", "delete leaderworkerset qwen-decode-0"),
        (slice_("a", "w"), workload("w", evicted=True, admitted=False),
         "held by an evicted workload", "kubectl delete slice a"),
        (slice_("a", "w"), workload("w", evicted=True, admitted=True), "in use", ""),
        (slice_("a", "w"), going(workload("w", admitted=True, lws="qwen-decode-0")),
         "held by a deleted workload", "kubectl delete slice a"),
        (slice_("a", "w"), workload("w", admitted=True, finished=True),
         "held by a finished workload", "kubectl delete slice a"),
        (slice_("a", "w"), workload("w", admitted=True, finished=False), "in use", ""),
        (slice_("a", None), None, "made by hand", ""),
        (going(slice_("a", "w")), None, "going", ""),
        (going(slice_("a", "w")), going(workload("w", admitted=True)), "going", ""),
        (going(slice_("a", None)), None, "going", ""),
    ],
)  # fmt: skip
def test_a_slice_is_in_use_stuck_or_none_of_ours(
    found: Any, owner: Any, state: str, advice: str
) -> None:
    (one,) = held([found], [owner] if owner else [])
    assert one.state == state
    assert advice in one.advice
    assert bool(one.advice) == one.stuck


def test_a_workload_that_waits_for_a_slice_that_is_gone_is_named() -> None:
    waiting = going(workload("w"))
    assert list(leftovers([], [waiting])) == ["llm/w"]
    assert list(leftovers([slice_("a", "w")], [waiting])) == []


@pytest.mark.parametrize(
    ("workloads", "code"),
    [
        ([workload("w", admitted=True)], 0),
        ([], 1),
        ([going(workload("w", admitted=True))], 1),
        ([workload("w", admitted=True, finished=True)], 1),
    ],
    ids=["used", "owner gone", "owner deleted", "owner finished"],
)
def test_the_command_tells_by_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workloads: list[Any], code: int
) -> None:
    table, program = tmp_path / "table.json", tmp_path / "kubectl"
    table.write_text(json.dumps({"slices": [slice_("a", "w")], "workloads": workloads}))
    program.write_text(KUBECTL.format(python=sys.executable, table=str(table)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    done = CliRunner().invoke(app, [])
    assert done.exit_code == code
    assert ("kubectl delete slice a" in done.output) is bool(code)
    data = json.loads(CliRunner().invoke(app, ["--json"]).output)
    assert [each["stuck"] for each in data["slices"]] == [bool(code)]


def test_a_cluster_that_cannot_be_asked_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 2
    assert "kubectl is not on PATH" in done.output
