"""Preview of prod beside a flat program, and of a whole block of 144 cubes.

The flat program declares the same resources with the same inputs, order and provider classes,
without configuration, components or names of its own: what is left is the price of the structure.
Both run in this process on the real engine and the simulated cloud, in turn, after a warm-up.
"""

import copy
import importlib
import re
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
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
    small, large = _per_resource(2), _per_resource(BLOCK)
    return [
        Figure.at_most("preview of prod / of a flat program", ours / flat, 1.15, "", COMMAND),
        Figure.at_most("preview of prod, warm", ours, 12, "s", COMMAND),
        Figure.at_most(
            f"time per resource at {BLOCK} cubes / at 2", large[0] / small[0], 1, "", COMMAND
        ),
        Figure.at_most(f"preview of {BLOCK} cubes", large[1], 60, "s", COMMAND),
        Figure.at_most("memory of the program and its largest child", _memory(), 1, "GB", COMMAND),
    ]


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


def _per_resource(cubes: int) -> tuple[float, float]:
    """Seconds per resource, and in all, of a preview with so many cubes."""
    config = changed(stack_config("prod"), {"tpuserve:tpuPools.cubes.cubes": cubes})
    with (
        tempfile.TemporaryDirectory() as folder,
        Sim(Path(folder), stack="prod", config=config, program=ROOT / "__main__.py") as sim,
    ):
        count = sum(sim.preview().change_summary.values())
        seconds = statistics.median(_seconds(sim.preview) for _ in range(3))
    return seconds / count, seconds


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
