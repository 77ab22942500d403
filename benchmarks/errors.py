"""How fast a wrong stack file is told so, and how many calls that takes."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from benchmarks.figures import Figure
from simcloud.engine import OperationFailed, Sim
from tests.support.files import ROOT, stack_config
from tests.support.variants import changed

COMMAND = "python -m benchmarks errors"
WRONG = {"tpuserve:cluster.version": "1.36.0-gke.2459000", "tpuserve:tpuPools.cubes.cubes": 145}


def measure() -> list[Figure]:
    """Seconds of the doctor on a wrong file, and calls of a preview of it to any provider."""
    config = changed(stack_config("prod"), WRONG)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "Pulumi.wrong.yaml"
        file.write_text(yaml.safe_dump({"config": config}))
        command = [sys.executable, "-m", "ops", "doctor", "-s", str(file)]
        times = []
        for _ in range(5):
            start = time.perf_counter()
            done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
            times.append(time.perf_counter() - start)
            assert done.returncode == 1
    return [
        Figure.at_most("wrong stack file to its errors", statistics.median(times), 1, "s", COMMAND),
        Figure.at_most("resource calls before them", _calls(config), 0, "", COMMAND),
    ]


def _calls(config: dict[str, object]) -> int:
    with (
        tempfile.TemporaryDirectory() as folder,
        Sim(Path(folder), stack="prod", config=config, program=ROOT / "__main__.py") as sim,
    ):
        try:
            sim.preview()
        except OperationFailed:
            return sum(1 for each in sim.cloud.log() if each.urn)
    msg = "the preview of a wrong stack file went through"
    raise AssertionError(msg)
