"""How long a report of a large plan takes.

A thousand changed resources of the kinds this stack has, with inputs and outputs of their usual
size, as the engine logs them: read, judged, priced, rendered as comment, JSON and terminal view.
The command has one thread, so on an idle core its CPU is its time.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.figures import Figure
from ops.gate.settings import load_settings
from ops.preview.redact import Redactor
from ops.preview.source import load
from ops.report.markdown import render
from ops.report.model import assemble, look
from ops.report.terminal import show

COMMAND = "python -m benchmarks report"
STEPS = 1000
RUNS = 5
STACK_URN = "urn:pulumi:prod::tpuserve::pulumi:pulumi:Stack::tpuserve-prod"
KINDS = (
    "gcp:container/nodePool:NodePool",
    "kubernetes:apps/v1:Deployment",
    "kubernetes:core/v1:ConfigMap",
    "gcp:projects/iAMMember:IAMMember",
    "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
)
OPERATIONS = ("update", "replace", "create", "delete", "update")


def events(steps: int) -> Iterator[dict[str, Any]]:
    """An event log of `steps` changed resources under fifty components, policies included."""
    for number in range(steps):
        kind, operation = KINDS[number % 5], OPERATIONS[number // 5 % 5]
        old, new = _state(kind, number, 1), _state(kind, number, 2)
        metadata = {
            "op": operation,
            "urn": old["urn"],
            "type": kind,
            "old": None if operation == "create" else old,
            "new": None if operation == "delete" else new,
            "keys": ["nodeConfig"] if operation == "replace" else None,
            "diffs": ["nodeConfig", "spec"],
            "detailedDiff": {
                "nodeCount": {"diffKind": "update", "inputDiff": True},
                "spec.template.spec.containers[0].image": {"diffKind": "update"},
            },
            "provider": "urn:pulumi:prod::tpuserve::pulumi:providers:gcp::google::1",
        }
        yield {"resourcePreEvent": {"metadata": metadata, "planning": True}}
        yield {"resOutputsEvent": {"metadata": metadata, "planning": True}}
        if number % 10 == 0:
            yield {
                "policyEvent": {
                    "resourceUrn": old["urn"],
                    "message": f"A rule.\nproperty {number} is not as it should be",
                    "policyName": f"RULE-{number % 70}",
                    "policyPackName": "tpuserve",
                    "enforcementLevel": "mandatory" if number % 100 == 0 else "advisory",
                }
            }
    yield {"summaryEvent": {"result": "succeeded", "resourceChanges": {"update": steps}}}
    yield {"cancelEvent": {}}


def _state(kind: str, number: int, edition: int) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": f"registry.example/vllm@sha256:{edition:064x}",
        "args": [f"--option-{n}=value" for n in range(30)],
        "env": [{"name": f"NAME_{n}", "value": f"value {n}"} for n in range(20)],
    }
    inputs = {
        "name": f"resource-{number}",
        "location": "us-central1",
        "nodeLocations": ["us-central1-b"],
        "nodeCount": edition,
        "nodeConfig": {"machineType": "ct6e-standard-4t", "labels": {"team": "ml"}},
        "metadata": {"name": f"resource-{number}", "namespace": "llm"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    return {
        "type": kind,
        "urn": f"urn:pulumi:prod::tpuserve::{kind}::resource-{number}",
        "custom": True,
        "id": f"id-{number}",
        "parent": f"urn:pulumi:prod::tpuserve::tpuserve:serving:Part::part-{number % 50}",
        "inputs": inputs,
        "outputs": inputs,
        "provider": "",
    }


def report(path: Path) -> None:
    """One report of an event log, all its forms."""
    redactor = Redactor(["a-secret-of-this-stack"])
    view = look(load(path), load_settings(), redactor=redactor, commits=["0" * 40])
    whole = assemble([view])
    render(whole, [view], redactor=redactor)
    whole.model_dump_json(by_alias=True)
    with Path(os.devnull).open("w") as nowhere:
        show(view, Console(file=nowhere), redactor=redactor)


def command(path: Path, folder: Path) -> None:
    """The same by the command people run."""
    files: list[str | Path] = [
        "--markdown",
        folder / "comment.md",
        "--json",
        folder / "report.json",
    ]
    subprocess.run(
        [sys.executable, "-m", "ops", "report", "render", path, *files],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def measure() -> list[Figure]:
    """CPU seconds of a report, by the command and in a process that is there already."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "events.jsonl"
        path.write_text("\n".join(json.dumps(event) for event in events(STEPS)) + "\n")
        report(path)
        ready = median(_cpu(lambda: report(path)) for _ in range(RUNS))
        whole = median(_cpu(lambda: command(path, folder)) for _ in range(RUNS))
    return [
        Figure.at_most(f"report of a plan of {STEPS} steps, CPU", whole, 1, "s", COMMAND),
        Figure.reported("the same without interpreter and imports", f"{ready:.2f} s", COMMAND),
    ]


def _cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU, child processes included."""
    before = os.times()
    work()
    return sum(os.times()[:4]) - sum(before[:4])
