"""What the policy pack costs: a preview of prod with it and without, and its start.

A preview is a process of its own, as a user starts it, on the real engine and the simulated cloud;
with and without the pack take turns. The pack runs in a process that the engine starts each time.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from simcloud.engine import Sim
from tests.support.files import ROOT, stack_config

COMMAND = "python -m benchmarks policies"
PACK = ROOT / "policies"
ROUNDS = 6


def measure() -> list[Figure]:
    """The pack's share of a preview, and the seconds to import it."""
    bare, judged = _previews()
    return [
        Figure.at_most("policy pack / preview of prod", judged / bare - 1, 0.2, "", COMMAND),
        Figure.at_most("import of the policy pack", _import_seconds(), 1, "s", COMMAND),
    ]


def _previews() -> tuple[float, float]:
    """Median seconds of a preview without the pack and with it."""
    times: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(ROUNDS):
        for word, seconds in times.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", __name__, word], cwd=ROOT, check=True)
            seconds.append(time.perf_counter() - start)
    return statistics.median(times["without"][1:]), statistics.median(times["with"][1:])


def _import_seconds() -> float:
    """Median seconds of an interpreter that imports the pack, less those of one that does not."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], cwd=PACK, check=True)
        return time.perf_counter() - start

    pairs = [(run("import pack"), run("pass")) for _ in range(ROUNDS)]
    return statistics.median(full - empty for full, empty in pairs[1:])


def _preview(*, judged: bool) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Sim(
            Path(folder), stack="prod", config=stack_config("prod"), program=ROOT / "__main__.py"
        ) as sim,
    ):
        sim.preview(policy_packs=[PACK / "run"] if judged else [])


if __name__ == "__main__":
    _preview(judged=sys.argv[1:] == ["with"])
