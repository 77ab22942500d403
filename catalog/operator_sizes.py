"""What the operators ask of the system pool."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Size:
    """Requests of one pod."""

    cpus: float
    memory_mib: int


JOBSET = Size(cpus=0.5, memory_mib=512)
LWS = Size(cpus=0.5, memory_mib=512)


def kueue(nodes: int) -> Size:
    """xpk's rule (AI-Hypercomputer/xpk, kueue_manager): 512 MiB, the chart's own, is too little."""
    return Size(cpus=max(2, math.ceil(0.004 * nodes)), memory_mib=max(4096, 32 * nodes))


def replicas(system_nodes: int) -> Mapping[str, int]:
    """Pods of each operator: two where there are nodes for two.

    LWS 0.8 to 0.10 is ready long before its webhook answers: of two the gate would have asked one.
    """
    pair = min(2, system_nodes)
    return {"kueue": pair, "jobset": pair, "lws": 1}
