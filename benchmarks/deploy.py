"""Simulated deployment of prod against its critical path, and against doing it step by step.

How long a single step takes is a table, simcloud/tables/durations.toml: public figures and stated
assumptions, not measurements of ours. A minute lasts four seconds here, so that the engine's own
work counts. Two ways of doing it by hand are compared: this stack's own resources one after the
other, and the codelab's scripts (GoogleCloudPlatform/devrel-demos 62d320c, ai-ml/dynamic-slicing),
which make one prefill and one decode group where prod makes six and fill no bucket.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.path import finished, minutes_of, taken
from simcloud.clock import duration
from simcloud.engine import Sim
from tests.support.files import ROOT, stack_config
from tests.support.recorder import record

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
    minutes = minutes_of(calls)
    path, serial = max(finished(graph, minutes).values()), in_a_row(taken(graph, minutes))
    return [
        Figure.at_most(
            f"creation of prod, {took:.1f} simulated minutes / its critical path, {path:.1f}",
            took / path,
            1.05,
            "",
            COMMAND,
        ),
        Figure.at_most(
            f"the same / its steps in the codelab's order, one by one, {serial:.1f} min",
            took / serial,
            0.5,
            "",
            COMMAND,
        ),
        Figure.reported(
            f"the same / the codelab's scripts and the weights, {scripts():.1f} min",
            f"{took / scripts():.2f}",
            COMMAND,
        ),
        Figure.reported(
            f"`up` of prod in all at {SECONDS_PER_MINUTE:g} s per simulated minute",
            f"{whole:.1f} s",
            COMMAND,
        ),
    ]


TOGETHER = (":Service", ":LeaderWorkerSet")
"""What the codelab asks for in one go: APIs in one call, all model servers in one script."""


def in_a_row(steps: Sequence[tuple[str, float]]) -> float:
    """Minutes of all creations one after the other, but for those that go together."""
    alone = sum(minutes for type_, minutes in steps if not type_.endswith(TOGETHER))
    return alone + sum(
        max(minutes for type_, minutes in steps if type_.endswith(kind)) for kind in TOGETHER
    )


SCRIPTS = (
    ("02 APIs", "gcp:projects/service:Service"),
    ("03 network", "gcp:compute/network:Network"),
    ("03 subnetwork", "gcp:compute/subnetwork:Subnetwork"),
    ("03 cluster, with a default pool", "gcp:container/cluster:Cluster"),
    ("03 first cube", "tpu:gcp:container/nodePool:NodePool"),
    ("03 second cube", "tpu:gcp:container/nodePool:NodePool"),
    ("04 JobSet", "helm:jobset"),
    ("04 Kueue", "helm:kueue"),
    ("04 LWS", "helm:lws"),
    ("04 slice controller", "kind:Deployment"),
    ("05 queues", "kind:ClusterQueue"),
    ("08 gateway", "kind:Gateway"),
    ("09 router", "helm:*"),
    ("weights, which no script copies", "kind:Job"),
    ("10 slices", "kind:Slice"),
    ("10 prefill and decode", "tpu:LeaderWorkerSet"),
)
"""Steps of the codelab that a deployment needs; 06 and 07 are exercises."""


def scripts() -> float:
    """Minutes of the codelab's scripts, each after the one before."""
    return sum(duration(key).create for _, key in SCRIPTS)
