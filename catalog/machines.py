"""Machine types of nodes without TPUs: what their family allows."""

from catalog.accelerators import MACHINES
from catalog.source import docs

FORM = r"[a-z][a-z0-9]*(-[a-z0-9]+)+"
MACHINE_FAMILIES = docs("Machine families resource and comparison guide")

GPU_FAMILIES = frozenset({"a2", "a3", "a4", "a4x", "g2", "g4"})
"""Families whose machines all carry GPUs (docs 'GPU machine types')."""

_ARM = frozenset({"a4x", "c4a", "n4a", "t2a"})
"""GKE taints their nodes with kubernetes.io/arch=arm64 (docs 'Arm workloads on GKE')."""

_HYPERDISK_ONLY = frozenset({"c4", "c4a", "c4d", "h4d", "m4", "n4", "n4a", "n4d", "x4"})
"""Families without Persistent Disk (docs 'About Hyperdisk')."""


def family(machine: str) -> str:
    return machine.partition("-")[0]


def is_tpu(machine: str) -> bool:
    return machine in MACHINES or family(machine) in {name.partition("-")[0] for name in MACHINES}


def is_arm(machine: str) -> bool:
    return family(machine) in _ARM


def boot_disk(machine: str) -> str:
    """The balanced disk type that machines of this family boot from."""
    return "hyperdisk-balanced" if family(machine) in _HYPERDISK_ONLY else "pd-balanced"
