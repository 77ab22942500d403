"""How long a report of a large plan takes: `python -m benchmarks.report`.

A thousand changed resources of the kinds this stack has, with inputs and outputs of their usual
size, as the engine logs them: read, judged, priced, rendered as comment, JSON and terminal view.
`ready` is that work in one process; `command` adds the interpreter and its imports. The goal is a
report of 1,000 steps in under a second of CPU by the command: it has one thread, so on an idle core
that is its time, and other work on the machine does not change it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from ops.gate.settings import load_settings
from ops.preview.redact import Redactor
from ops.preview.source import load
from ops.report.markdown import render
from ops.report.model import assemble, look
from ops.report.terminal import show

GOAL_SECONDS = 1.0
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


def report(path: Path) -> int:
    """One report of an event log; the length of its comment in bytes."""
    redactor = Redactor(["a-secret-of-this-stack"])
    view = look(load(path), load_settings(), redactor=redactor, commits=["0" * 40])
    whole = assemble([view])
    comment = render(whole, [view], redactor=redactor)
    whole.model_dump_json(by_alias=True)
    with Path(os.devnull).open("w") as nowhere:
        show(view, Console(file=nowhere), redactor=redactor)
    return len(comment.encode())


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


def main(
    steps: Annotated[int, typer.Option(help="Changed resources in the plan.")] = 1000,
    runs: Annotated[int, typer.Option(help="Times each is measured.")] = 5,
    output: Annotated[Path, typer.Option(help="Where the figures go.")] = Path(
        "benchmarks/report.json"
    ),
) -> None:
    """Measure, print and write the figures; exit 1 if the goal is missed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "events.jsonl"
        path.write_text("\n".join(json.dumps(event) for event in events(steps)) + "\n")
        size = report(path)
        ready = [_spent(lambda: report(path)) for _ in range(runs)]
        whole = [_spent(lambda: command(path, folder)) for _ in range(runs)]
        megabytes = path.stat().st_size / 1e6
    record = {
        "run_by": f"python -m benchmarks.report --steps {steps} --runs {runs}",
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "load_average_of_the_machine": round(os.getloadavg()[0], 1),
        "python": sys.version.split()[0],
        "steps": steps,
        "event_log_megabytes": round(megabytes, 1),
        "comment_bytes": size,
        "ready": _figures(ready),
        "command": _figures(whole),
        "goal_cpu_seconds": GOAL_SECONDS,
        "reached": median(cpu for _, cpu in whole) < GOAL_SECONDS,
    }
    output.write_text(json.dumps(record, indent=2) + "\n")
    typer.echo(json.dumps(record, indent=2))
    raise typer.Exit(0 if record["reached"] else 1)


def _spent(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of CPU, child processes included."""
    before, start = os.times(), time.perf_counter()
    work()
    wall, after = time.perf_counter() - start, os.times()
    return wall, sum(after[:4]) - sum(before[:4])


def _figures(spent: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "median_wall_seconds": round(median(wall for wall, _ in spent), 2),
        "least_wall_seconds": round(min(wall for wall, _ in spent), 2),
        "median_cpu_seconds": round(median(cpu for _, cpu in spent), 2),
    }


if __name__ == "__main__":
    typer.run(main)
