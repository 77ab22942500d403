"""Dynamic slicing: how slices lie on cubes, and the words Kubernetes uses for it.

Google Cloud docs 'About dynamic slicing' and 'Schedule dynamic slices with Kueue and TAS';
AI-Hypercomputer/xpk branch slice-main, 250d4b3 (the Kueue slice controller).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.accelerators import (
    CUBE,
    SUB_CUBE,
    TPU7X,
    Slice,
    Topology,
    format_topology,
    parse_topology,
    slices,
    why_illegal,
)
from catalog.source import READ, Source, docs

DYNAMIC = docs("Schedule dynamic slices with Kueue and TAS")
CONTROLLER = Source("AI-Hypercomputer/xpk slice-main 250d4b3", READ)

ACCELERATOR_LABEL = "cloud.google.com/gke-tpu-accelerator"
BLOCK_LABEL = "cloud.google.com/gce-topology-block"
HOSTNAME_LABEL = "kubernetes.io/hostname"
POOL_LABEL = "cloud.google.com/gke-nodepool"
FORMED_LABEL = "cloud.google.com/gke-tpu-topology"
"""On nodes only while a slice owns them: the admission check adds the selector, nobody else."""

SHAPE_ANNOTATION = "cloud.google.com/gke-tpu-slice-topology"
"""On pod templates: the shape asked for."""

TPU = "google.com/tpu"
"""Resource and taint of TPU nodes; the resource counts chips."""
TAINT_VALUE = "present"

SLICE_CHECK = "accelerator.gke.io/slice"
"""Controller name of the admission check that the Kueue slice controller answers."""

SLICE_NAME_LIMIT = 49


@dataclass(frozen=True, kw_only=True)
class Partition:
    """The part of a cube, or the cube, that a slice takes one or more of."""

    shape: str
    hosts: int
    count: int
    """Partitions of one slice: cubes of a super-slice, else one."""
    per_cube: int

    @property
    def id_label(self) -> str:
        return f"cloud.google.com/gke-tpu-partition-{self.shape}-id"

    @property
    def state_label(self) -> str:
        return f"cloud.google.com/gke-tpu-partition-{self.shape}-state"


class UnknownShapeError(ValueError):
    """A shape that dynamic slicing cannot form."""


def slice_of(shape: str) -> Slice:
    """The TPU7x slice of a shape; UnknownShapeError with the rule it breaks."""
    topology = parse_topology(shape)
    found = [each for each in slices(TPU7X, topology) if each.machine.chained]
    if not found:
        raise UnknownShapeError(f"no slice of TPU7x: {why_illegal(TPU7X, topology)}")
    return found[0]


def partition(of: Slice) -> Partition:
    whole = of.topology not in SUB_CUBE
    cube = math.prod(CUBE)
    shape: Topology = CUBE if whole else of.topology
    return Partition(
        shape=format_topology(shape),
        hosts=math.prod(shape) // of.machine.chips,
        count=of.chips // cube if whole else 1,
        per_cube=cube // math.prod(shape),
    )


def at_most(of: Slice, cubes: int) -> int:
    """Slices of this shape that fit into a number of cubes of one block."""
    part = partition(of)
    return cubes * part.per_cube // part.count


def levels(shapes: Iterable[str]) -> list[str]:
    """Labels of the topology these shapes need: block, partitions from large to small, host."""
    parts = {partition(slice_of(shape)) for shape in shapes}
    # A shape and its multiples share a level; count tells them apart and is no part of the label.
    sizes = {part.id_label: part.hosts for part in parts}
    return [BLOCK_LABEL, *sorted(sizes, key=lambda label: -sizes[label]), HOSTNAME_LABEL]
