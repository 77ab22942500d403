"""What a node has left for pods: GKE keeps a part of each machine for itself.

Google Cloud docs 'Plan GKE Standard node sizes'. DaemonSets take a little of what is left.
"""

import math
import re
from dataclasses import dataclass

from catalog.source import docs

NODE_SIZES = docs("Plan GKE Standard node sizes")

GIB_PER_CPU = {"standard": 4, "highmem": 8, "highcpu": 2}
"""At most, over the families (docs 'General-purpose machine family')."""

_MEMORY_STEPS = ((4, 0.25), (8, 0.20), (16, 0.10), (128, 0.06), (float("inf"), 0.02))
"""Up to so many GiB this part is kept."""
_CPU_STEPS = ((1, 0.06), (2, 0.01), (4, 0.005), (float("inf"), 0.0025))
_EVICTION_MIB = 100


@dataclass(frozen=True, kw_only=True)
class Room:
    """CPUs and memory for pods."""

    cpus: float
    memory_mib: int


def allocatable(*, cpus: float, memory_gib: float) -> Room:
    """Room on a node of this size."""
    kept = _kept(memory_gib, _MEMORY_STEPS) * 1024 + _EVICTION_MIB
    return Room(
        cpus=round(cpus - _kept(cpus, _CPU_STEPS), 3),
        memory_mib=int(memory_gib * 1024 - kept),
    )


def capacity(machine: str) -> tuple[float, float]:
    """CPUs and GiB of a machine type as its name tells, as in e2-standard-8; else without end."""
    found = re.search(r"-(\w+)-(\d+)$", machine)
    if found is None:
        return math.inf, math.inf
    cpus = int(found[2])
    return cpus, cpus * GIB_PER_CPU.get(found[1], math.inf)


def of_machine(machine: str) -> Room | None:
    """Room on a machine type whose name tells its size."""
    cpus, memory = capacity(machine)
    return None if math.isinf(memory) else allocatable(cpus=cpus, memory_gib=memory)


def _kept(size: float, steps: tuple[tuple[float, float], ...]) -> float:
    kept, below = 0.0, 0.0
    for upto, part in steps:
        kept += part * max(0.0, min(size, upto) - below)
        below = upto
    return kept
