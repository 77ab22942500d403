"""`make demo` after set-up: both stacks through their whole life, in processes of their own."""

import subprocess
import sys
import time

from benchmarks.figures import Figure
from tests.support.files import ROOT

COMMAND = "python -m benchmarks demo"


def measure() -> list[Figure]:
    """Seconds of the demo of both stacks."""
    start = time.perf_counter()
    for stack in ("dev", "prod"):
        command = [sys.executable, "-m", "simcloud", "demo", "--stack", stack]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    return [Figure.at_most("`make demo` of both stacks after set-up", seconds, 60, "s", COMMAND)]
