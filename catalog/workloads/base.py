"""What a queue offers, what may be wrong with a workload, and the words for both."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from catalog.accelerators import CUBE, TPU7X, Slice
from catalog.partitions import at_most
from catalog.releases import RELEASE_SETS, ReleaseSet
from catalog.source import READ, Source

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"

JOB, JOBSET, LWS = "Job", "JobSet", "LeaderWorkerSet"
MEASURED = Source(
    "slice controller 250d4b3 on Kueue 0.17.0, JobSet 0.11.1, LWS 0.8.0, simulated nodes",
    date(2026, 11, 30),
)
KUEUE = Source("Kueue docs, 'Topology Aware Scheduling' and 'Run a JobSet'", READ)
LABELS = Source("Kubernetes docs, 'Labels and Selectors': 63 characters", READ)
QUANTITY = Source("Kubernetes docs, 'Resource Management for Pods and Containers'", READ)

LABEL_LIMIT = 63
POD_SUFFIX = len("-abcde")
HOST = TPU7X.machine("tpu7x-standard-4t")
CUBE_HOSTS = math.prod(CUBE) // HOST.chips
LEAST_MEMORY = "64Mi"
"""Below it somebody forgot the unit: no Python starts in less."""
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """What the queue of a stack offers."""

    name: str
    """Name of the LocalQueue in every namespace of `namespaces`."""
    namespaces: Sequence[str]
    shapes: Sequence[str]
    blocks: Sequence[int]
    """Cubes by block: a super-slice lies in one block, and so do all slices of one job."""
    priorities: Mapping[str, int]
    serving_priority: str
    chips: Mapping[str, int] = field(default_factory=dict)
    """The most a namespace may have at once, with what others lend; all of them where it is not
    said."""
    releases: ReleaseSet = RELEASE_SETS[0]

    def room(self, of: Slice) -> int:
        """Slices of this shape that fit at once."""
        return sum(at_most(of, cubes) for cubes in self.blocks)

    def room_for_one_job(self, of: Slice) -> int:
        """The most slices of one job: Kueue looks for one block that holds them all."""
        return max((at_most(of, cubes) for cubes in self.blocks), default=0)

    def fit(self, jobs: Sequence[int]) -> bool:
        """Whether jobs of so many hosts lie in the blocks at once, none across two.

        Partitions halve each other, so within a block the number of hosts alone decides.
        """
        return _packs(sorted(jobs, reverse=True), [each * CUBE_HOSTS for each in self.blocks])


def _packs(jobs: Sequence[int], free: Sequence[int]) -> bool:
    if not jobs:
        return True
    first, *others = jobs
    return any(
        _packs(others, [room - first if at == index else room for at, room in enumerate(free)])
        for index, each in enumerate(free)
        if each >= first and each not in free[:index]
    )


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """A field of a workload, its value, the rule it breaks, and what to do."""

    path: str
    value: object
    rule: str
    fix: str
    source: Source = field(default=MEASURED)
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value}"
        return f"{self.path}{value}: {self.rule}; {self.fix} ({self.source})"


def over_quota(path: str, chips: int, manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    namespace = str((manifest.get("metadata") or {}).get("namespace", ""))
    most = queue.chips.get(namespace, chips)
    if chips > most:
        yield Flaw(
            path=path,
            value=f"{chips} chips",
            rule=f"takes {chips} chips, namespace {namespace} may have at most {most}: it waits "
            "for ever",
            fix="ask for fewer slices or a smaller shape, or raise the share of its team",
            source=KUEUE,
        )


def replicas_of(given: Mapping[str, Any]) -> int:
    value = given.get("replicas")
    return 1 if value is None else int(value)


def any_of(words: Sequence[str]) -> str:
    return " or ".join(words)
