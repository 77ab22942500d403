"""Simulated deployment of prod against its critical path, and against the codelab's order.

Durations are the table in simcloud/tables/durations.toml (public figures and stated assumptions,
not measurements of ours); a minute lasts one second here, so that the engine's own work counts.
"""

import tempfile
import time
from functools import cache
from pathlib import Path

from benchmarks.figures import Figure
from simcloud.clock import duration
from simcloud.engine import Sim
from tests.support.files import ROOT, stack_config
from tests.support.recorder import Graph, Registered, record

COMMAND = "python -m benchmarks deploy"
SECONDS_PER_MINUTE = 1.0


def measure() -> list[Figure]:
    """The engine's time over the longest chain, and over all steps in a row."""
    config = stack_config("prod")
    graph = record(config, stack="prod")
    path, serial = critical_path(graph), in_a_row(graph)
    with (
        tempfile.TemporaryDirectory() as folder,
        Sim(
            Path(folder),
            stack="prod",
            config=config,
            program=ROOT / "__main__.py",
            scale=SECONDS_PER_MINUTE,
        ) as sim,
    ):
        sim.preview()
        start = time.perf_counter()
        sim.up(parallel=64)
        whole = time.perf_counter() - start
        calls = [each for each in sim.cloud.log() if each.method == "Create"]
    minutes = (max(c.ended for c in calls) - min(c.started for c in calls)) / SECONDS_PER_MINUTE
    return [
        Figure.at_most(
            f"first to last creation of prod, simulated minutes / critical path of {path:.1f}",
            minutes / path,
            1.05,
            "",
            COMMAND,
        ),
        Figure.at_most(
            f"the same / every step in a row, as scripts do it, {serial:.1f} min",
            minutes / serial,
            0.5,
            "",
            COMMAND,
        ),
        Figure(
            what="`up` of prod in all at 1 s per simulated minute",
            measured=f"{whole:.1f} s",
            goal="reported",
            reached=True,
            command=COMMAND,
        ),
    ]


def critical_path(graph: Graph) -> float:
    """Minutes of the longest chain of creations that wait for each other."""
    by_urn = {each.urn: each for each in graph.resources}

    @cache
    def done(urn: str) -> float:
        each = by_urn[urn]
        needed = [done(need) for need in each.dependencies if need in by_urn]
        return _minutes(each) + max(needed, default=0.0)

    return max(done(urn) for urn in by_urn)


def in_a_row(graph: Graph) -> float:
    """Minutes of all creations one after the other; the APIs are one call in the codelab."""
    services = [each for each in graph.resources if each.type.endswith(":Service")]
    rest = [each for each in graph.resources if each not in services]
    return max(map(_minutes, services), default=0.0) + sum(map(_minutes, rest))


def _minutes(each: Registered) -> float:
    return duration(each.type).create if each.custom else 0.0
