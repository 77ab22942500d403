"""Preview of prod beside a flat program, and of a whole block of 144 cubes.

The flat program declares the same resources with the same inputs, order and provider classes,
without configuration, components or names of its own: what is left is the price of the structure.
Both run in this process on the real engine and the simulated cloud, in turn, after a warm-up.
A whole block is also previewed as a user does it, in a process of its own with all its imports.
"""

import copy
import importlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from benchmarks.figures import Figure
from simcloud.engine import Sim
from tests.support.files import ROOT, stack_config
from tests.support.recorder import Graph, Registered, record
from tests.support.variants import changed

COMMAND = "python -m benchmarks preview"
ROUNDS = 7
BLOCK = 144


def measure() -> list[Figure]:
    """Time against a flat program; time and memory of a whole block."""
    ours, flat = _side_by_side()
    small, large = _whole(2), _whole(BLOCK)
    warm = {cubes: _per_resource(cubes) for cubes in (2, BLOCK)}
    return [
        Figure.at_most("preview of prod / of a flat program", ours / flat, 1.15, "", COMMAND),
        Figure.at_most("preview of prod, warm", ours, 12, "s", COMMAND),
        Figure.at_most(
            f"time per resource of a preview of {BLOCK} cubes / of 2",
            large.per_resource / small.per_resource,
            1,
            "",
            COMMAND,
        ),
        Figure.reported(
            "the same in a process that has imported everything",
            f"{warm[BLOCK] / warm[2]:.2f}",
            COMMAND,
        ),
        Figure.reported(f"preview of {BLOCK} cubes", f"{large.seconds:.1f} s", COMMAND),
        Figure.at_most(
            "memory of that program and its largest child", large.gigabytes, 1, "GB", COMMAND
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A preview in a process of its own."""

    seconds: float
    per_resource: float
    gigabytes: float


def _whole(cubes: int) -> Whole:
    """The median of three."""
    runs = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(cubes)],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - start
        count, gigabytes = map(float, done.stdout.split())
        runs.append(Whole(seconds=seconds, per_resource=seconds / count, gigabytes=gigabytes))
    return sorted(runs, key=lambda run: run.seconds)[1]


def _side_by_side() -> tuple[float, float]:
    """Median seconds of a preview: the program, and the flat one."""
    config = stack_config("prod")
    graph = record(config, stack="prod")
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as another,
        Sim(Path(one), stack="prod", config=config, program=ROOT / "__main__.py") as ours,
        Sim(Path(another), stack="prod", config=config, program=partial(_flat, graph)) as flat,
    ):
        rounds = [(_seconds(ours.preview), _seconds(flat.preview)) for _ in range(ROUNDS)]
    mine, other = zip(*rounds[1:], strict=True)
    return statistics.median(mine), statistics.median(other)


@contextmanager
def _cubes(count: int) -> Iterator[Sim]:
    config = changed(
        stack_config("prod"),
        {
            "tpuserve:tpuPools.cubes.cubes": count,
            # Kueue keeps the nodes of a whole block in 74 GiB.
            "tpuserve:cluster.systemPool.machine": "e2-standard-32",
        },
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        Sim(Path(folder), stack="prod", config=config, program=ROOT / "__main__.py") as sim,
    ):
        yield sim


def _per_resource(cubes: int) -> float:
    """Seconds per resource of a preview here, after a first one."""
    with _cubes(cubes) as sim:
        count = sum(sim.preview().change_summary.values())
        return statistics.median(_seconds(sim.preview) for _ in range(3)) / count


def _seconds(operation: Callable[[], object]) -> float:
    start = time.perf_counter()
    operation()
    return time.perf_counter() - start


def _memory() -> float:
    """Largest resident size so far of this process and of one child, in GB."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1e6


def _flat(graph: Graph) -> None:
    """Declare every resource of a recorded graph, one after the other, without components."""
    providers = {
        "gcp": gcp.Provider("google", project="my-project", region="us-central1"),
        "kubernetes": k8s.Provider("kubernetes", kubeconfig="{}"),
    }
    made: dict[str, pulumi.Resource] = {}
    for each in _in_order(graph):
        package = each.type.split(":")[0]
        options = pulumi.ResourceOptions(
            provider=providers[package],
            depends_on=[made[urn] for urn in each.dependencies if urn in made],
            delete_before_replace=each.delete_before_replace or None,
            ignore_changes=list(each.ignore_changes),
            replace_on_changes=list(each.replace_on_changes),
        )
        inputs = copy.deepcopy(each.inputs)
        kind = _resource_class(each.type)
        if kind is None:
            made[each.urn] = pulumi.CustomResource(each.type, each.name, inputs, options)
        else:
            words = {_snake(key): value for key, value in inputs.items()}
            made[each.urn] = kind(each.name, opts=options, **words)


def _in_order(graph: Graph) -> list[Registered]:
    """Cloud resources, each after what it depends on."""
    left = [each for each in graph.resources if each.type.split(":")[0] in ("gcp", "kubernetes")]
    urns = {each.urn for each in left}
    placed: set[str] = set()
    order: list[Registered] = []
    while left:
        ready = [each for each in left if each.dependencies & urns <= placed]
        order += ready
        placed |= {each.urn for each in ready}
        left = [each for each in left if each not in ready]
    return order


def _resource_class(token: str) -> Callable[..., pulumi.Resource] | None:
    """The SDK's class for a type; none for a custom kind."""
    package, module, name = token.split(":")
    group, _, version = module.partition("/")
    if package == "gcp":
        found: Any = importlib.import_module(f"pulumi_gcp.{group}")
    else:
        folder = "helm" if group == "helm.sh" else group.split(".")[0]
        try:
            found = importlib.import_module(f"pulumi_kubernetes.{folder}.{version}")
        except ModuleNotFoundError:
            return None
    return getattr(found, name, None)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


if __name__ == "__main__":
    with _cubes(int(sys.argv[1])) as preview_of:
        print(sum(preview_of.preview().change_summary.values()), _memory())
