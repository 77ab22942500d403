"""From an empty project to dev's first token, simulated, against the longest chain of steps.

Durations are those the simulated cloud takes for each step (simcloud/tables/durations.toml: public
figures and stated assumptions, not measurements of ours); a minute lasts one second here. The chain
is that of the recorded graph, so what is measured is the engine's own share and any needless wait.
"""

import tempfile
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.path import finished, minutes_of
from simcloud.engine import Sim
from simcloud.store import Call
from tests.support.files import ROOT, stack_config
from tests.support.recorder import record

COMMAND = "python -m benchmarks serve"
SECONDS_PER_MINUTE = 1.0
SERVER, STAGING, POOL = "llama-server", "staging-llama", "trillium-pool"


def measure() -> list[Figure]:
    """The time to the first token over the chain it waits for, and what staging hides."""
    config = stack_config("dev")
    graph = record(config, stack="dev")
    with (
        tempfile.TemporaryDirectory() as folder,
        Sim(
            Path(folder),
            stack="dev",
            config=config,
            program=ROOT / "__main__.py",
            scale=SECONDS_PER_MINUTE,
        ) as sim,
    ):
        sim.preview()
        sim.up(parallel=64)
        calls = {each.name: each for each in sim.cloud.log() if each.method == "Create"}
    start = min(call.started for call in calls.values())
    first_token = (calls[SERVER].ended - start) / SECONDS_PER_MINUTE
    path = finished(graph, minutes_of(calls.values()))[graph.one("Deployment", SERVER).urn]
    return [
        Figure.at_most(
            f"first token of dev, simulated minutes / longest chain of {path:.1f}",
            first_token / path,
            1.05,
            "",
            COMMAND,
        ),
        Figure.reported(
            "minutes that staging and the TPU pool run side by side",
            f"{_overlap(calls[STAGING], calls[POOL]):.1f} of {calls[POOL].minutes:.1f}",
            COMMAND,
        ),
    ]


def _overlap(one: Call, other: Call) -> float:
    both = min(one.ended, other.ended) - max(one.started, other.started)
    return max(0.0, both / SECONDS_PER_MINUTE)
