"""Simulated deployment of prod against its critical path, and against the codelab's order.

How long a single step takes is a table, simcloud/tables/durations.toml: public figures and stated
assumptions, not measurements of ours. A minute lasts four seconds here, so that the engine's own
work counts.
"""

import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from benchmarks.figures import Figure
from simcloud.engine import Sim
from tests.support.files import ROOT, stack_config
from tests.support.recorder import Graph, Registered, record

COMMAND = "python -m benchmarks deploy"
SECONDS_PER_MINUTE = 4.0


def measure() -> list[Figure]:
    """The engine's time over the longest chain, and over all steps in a row."""
    config = stack_config("prod")
    graph = record(config, stack="prod")
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
        sim.up()
        whole = time.perf_counter() - start
        calls = [each for each in sim.cloud.log() if each.method == "Create"]
    took = (max(c.ended for c in calls) - min(c.started for c in calls)) / SECONDS_PER_MINUTE
    minutes = {each.urn.split("::", 2)[2]: each.minutes for each in calls}
    path, serial = critical_path(graph, minutes), in_a_row(graph, minutes)
    return [
        Figure.at_most(
            f"creation of prod, {took:.1f} simulated minutes / its critical path, {path:.1f}",
            took / path,
            1.05,
            "",
            COMMAND,
        ),
        Figure.at_most(
            f"the same / every step in a row, as scripts do it, {serial:.1f} min",
            took / serial,
            0.5,
            "",
            COMMAND,
        ),
        Figure(
            what="`up` of prod in all at 4 s per simulated minute",
            measured=f"{whole:.1f} s",
            goal="reported",
            reached=True,
            command=COMMAND,
        ),
    ]


def critical_path(graph: Graph, minutes: Mapping[str, float]) -> float:
    """Minutes of the longest chain of creations that wait for each other."""
    by_urn = {each.urn: each for each in graph.resources}

    @cache
    def done(urn: str) -> float:
        needed = [done(need) for need in by_urn[urn].dependencies if need in by_urn]
        return minutes.get(_key(by_urn[urn]), 0.0) + max(needed, default=0.0)

    return max(done(urn) for urn in by_urn)


def in_a_row(graph: Graph, minutes: Mapping[str, float]) -> float:
    """Minutes of all creations one after the other; the APIs are one call in the codelab."""
    services = [minutes[_key(each)] for each in graph.resources if each.type.endswith(":Service")]
    rest = [minutes.get(_key(each), 0.0) for each in graph.resources]
    return sum(rest) - sum(services) + max(services)


def _key(each: Registered) -> str:
    """What a resource is called in the log of the simulated cloud."""
    return each.urn.split("::", 2)[2]
