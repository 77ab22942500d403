"""TPU generations, their machine types, and the slices GKE can make of them.

Chip counts, HBM and fabrics: Google Cloud docs 'TPU v5e', 'v5p', 'v6e', 'TPU7x (Ironwood)'.
Topology rules: docs 'Plan TPUs in GKE'; AI-Hypercomputer/xpk `system_characteristics.py`.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

from catalog.source import READ, Source, docs

Topology = tuple[int, ...]

_TOPOLOGY = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")

PLAN_TPUS = docs("Plan TPUs in GKE")
XPK = Source("AI-Hypercomputer/xpk 367c838, system_characteristics.py", READ)
TOOLKIT = Source("GoogleCloudPlatform/cluster-toolkit 1047080, tpu-definition", READ)

CUBE: Topology = (4, 4, 4)
"""The unit of a 3D fabric that optical switches join: 64 chips on 16 hosts."""

SUB_CUBE: tuple[Topology, ...] = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
"""The 3D slices smaller than a cube."""

LARGEST_DIMENSION = 256
"""xpk's limit on one side of a super-slice."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A TPU virtual machine type; `chained` machines join into multi-host slices."""

    name: str
    chips: int
    vcpus: int | None
    memory_gib: int | None
    chained: bool
    source: Source


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One TPU generation as GKE sells it. `google.com/tpu` counts chips, JAX counts devices."""

    name: str
    product: str
    gke_label: str
    hbm_gib: int
    devices_per_chip: int
    fabric: Literal["2d", "3d"]
    pod_chips: int
    cubes: int
    bf16_tflops: int
    boot_disk: str
    workload_policy: bool
    machines: tuple[Machine, ...]
    source: Source

    def machine(self, name: str) -> Machine:
        """The machine type of this generation called `name`."""
        return next(machine for machine in self.machines if machine.name == name)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Chips joined by the inter-chip interconnect, and the hosts they sit on."""

    accelerator: Accelerator
    machine: Machine
    topology: Topology

    @property
    def chips(self) -> int:
        return math.prod(self.topology)

    @property
    def hosts(self) -> int:
        return self.chips // self.machine.chips

    @property
    def devices(self) -> int:
        """What `jax.device_count()` prints on the whole slice."""
        return self.chips * self.accelerator.devices_per_chip

    @property
    def multi_host(self) -> bool:
        return self.hosts > 1

    @property
    def needs_policy(self) -> bool:
        """Whether its node pool names a workload policy."""
        return self.multi_host and self.accelerator.workload_policy

    @property
    def shape(self) -> str:
        return format_topology(self.topology)


def _machine(  # noqa: PLR0917  a table reads best by position
    name: str,
    chips: int,
    vcpus: int | None,
    memory_gib: int | None,
    chained: bool,
    source: Source,
) -> Machine:
    return Machine(
        name=name,
        chips=chips,
        vcpus=vcpus,
        memory_gib=memory_gib,
        chained=chained,
        source=source,
    )


_V6E_PAGE = docs("TPU v6e machine types")
_V5E_SIZES = Source("Cyclenerd/google-cloud-pricing-cost-calculator issue 89", READ)
_V5P_SIZES = Source("skypilot-org/skypilot GCP catalog unit tests", READ)
_IRONWOOD = docs("About Ironwood (TPU7x) in GKE")

V5E = Accelerator(
    name="v5e",
    product="TPU v5e",
    gke_label="tpu-v5-lite-podslice",
    hbm_gib=16,
    devices_per_chip=1,
    fabric="2d",
    pod_chips=256,
    cubes=0,
    bf16_tflops=197,
    boot_disk="pd-balanced",
    workload_policy=False,
    machines=(
        _machine("ct5lp-hightpu-1t", 1, 24, 48, False, _V5E_SIZES),
        _machine("ct5lp-hightpu-4t", 4, 112, 192, True, _V5E_SIZES),
        _machine("ct5lp-hightpu-8t", 8, 224, 384, False, _V5E_SIZES),
    ),
    source=docs("TPU v5e"),
)

V5P = Accelerator(
    name="v5p",
    product="TPU v5p",
    gke_label="tpu-v5p-slice",
    hbm_gib=95,
    devices_per_chip=1,
    fabric="3d",
    pod_chips=8960,
    cubes=140,
    bf16_tflops=459,
    boot_disk="pd-balanced",
    workload_policy=False,
    machines=(_machine("ct5p-hightpu-4t", 4, 208, 448, True, _V5P_SIZES),),
    source=docs("TPU v5p"),
)

V6E = Accelerator(
    name="v6e",
    product="Trillium (TPU v6e)",
    gke_label="tpu-v6e-slice",
    hbm_gib=32,
    devices_per_chip=1,
    fabric="2d",
    pod_chips=256,
    cubes=0,
    bf16_tflops=918,
    boot_disk="hyperdisk-balanced",
    workload_policy=False,
    machines=(
        # Sources disagree on the memory of this one (176 or 448), so none is stated.
        _machine("ct6e-standard-1t", 1, 44, None, False, _V6E_PAGE),
        _machine("ct6e-standard-4t", 4, 180, 720, True, _V6E_PAGE),
        _machine("ct6e-standard-8t", 8, 180, 1440, False, _V6E_PAGE),
    ),
    source=docs("TPU v6e"),
)

TPU7X = Accelerator(
    name="tpu7x",
    product="Ironwood (TPU7x)",
    gke_label="tpu7x",
    hbm_gib=192,
    devices_per_chip=2,
    fabric="3d",
    pod_chips=9216,
    cubes=144,
    bf16_tflops=2307,
    # TPU7x machines refuse persistent disks (cluster-toolkit tpu-definition).
    boot_disk="hyperdisk-balanced",
    # A multi-host TPU7x pool needs a named workload policy; compact placement alone ends in
    # ERROR (vllm-project/ci-infra PR 547).
    workload_policy=True,
    machines=(
        _machine("tpu7x-standard-1t", 1, None, None, False, XPK),
        _machine("tpu7x-standard-4t", 4, 224, 960, True, _IRONWOOD),
    ),
    source=docs("TPU7x (Ironwood)"),
)

ACCELERATORS = {each.name: each for each in (V5E, V5P, V6E, TPU7X)}

MACHINES = {
    machine.name: (accelerator, machine)
    for accelerator in ACCELERATORS.values()
    for machine in accelerator.machines
}


def parse_topology(text: str) -> Topology:
    """`"2x2x1"` as numbers; ValueError when it is not of that form."""
    if not _TOPOLOGY.fullmatch(text):
        msg = f"topology {text!r} is not of the form AxB or AxBxC with positive whole numbers"
        raise ValueError(msg)
    return tuple(int(part) for part in text.split("x"))


def format_topology(topology: Topology) -> str:
    return "x".join(str(side) for side in topology)


def slices(accelerator: Accelerator, topology: Topology) -> list[Slice]:
    """Every slice of this topology; none when it is illegal, two where machine types differ."""
    return [
        Slice(accelerator=accelerator, machine=machine, topology=topology)
        for machine in accelerator.machines
        if _legal(accelerator, machine, topology)
    ]


def topologies(accelerator: Accelerator, *, largest: int = 1 << 30) -> list[Topology]:
    """The legal topologies of a generation of at most `largest` chips, smallest first."""
    found = (
        topology
        for topology in _candidates(accelerator)
        if math.prod(topology) <= largest and slices(accelerator, topology)
    )
    return sorted(found, key=lambda topology: (math.prod(topology), topology))


def nearest_topologies(accelerator: Accelerator, topology: Topology) -> list[Topology]:
    """Legal topologies to use instead: as many chips, or the next fewer and the next more."""
    chips = math.prod(topology)
    legal = topologies(accelerator)
    same = [each for each in legal if math.prod(each) == chips]
    in_order = [each for each in same if sorted(each) == sorted(topology)]
    fewer = [each for each in legal if math.prod(each) < chips]
    more = [each for each in legal if math.prod(each) > chips]
    return in_order or same[:3] or [*fewer[-1:], *more[:1]]


def why_illegal(accelerator: Accelerator, topology: Topology) -> str:
    """The rule that a topology without slices breaks, in one sentence."""
    text = format_topology(topology)
    dimensions = 2 if accelerator.fabric == "2d" else 3
    if len(topology) != dimensions:
        return (
            f"{accelerator.product} has a {dimensions}D fabric and {text} has "
            f"{len(topology)} dimensions"
        )
    if dimensions == 2:
        return (
            "sides are powers of two, the second equal to the first or twice it, "
            f"at most {accelerator.pod_chips} chips"
        )
    if list(topology) != sorted(topology) and topology not in SUB_CUBE:
        return f"sides are written in rising order: {format_topology(tuple(sorted(topology)))}"
    if all(side % 4 == 0 for side in topology):
        if topology[-1] > LARGEST_DIMENSION:
            return f"no side is longer than {LARGEST_DIMENSION} ({XPK})"
        return (
            f"at most {accelerator.cubes} cubes of 4x4x4; {text} is "
            f"{math.prod(topology) // 64} of them"
        )
    small = ", ".join(format_topology(each) for each in SUB_CUBE)
    return f"beyond {small} every side is a multiple of 4"


def _legal(accelerator: Accelerator, machine: Machine, topology: Topology) -> bool:
    chips = math.prod(topology)
    if machine.chips == 1:
        return chips == 1 and len(topology) == (2 if accelerator.fabric == "2d" else 3)
    if accelerator.fabric == "2d":
        if not machine.chained:
            return topology == (2, 4) and machine.chips == chips
        return (
            len(topology) == 2
            and _power_of_two(topology[0])
            and topology[0] >= 2
            and topology[1] in (topology[0], 2 * topology[0])
            and chips <= accelerator.pod_chips
        )
    return topology in SUB_CUBE or _whole_cubes(accelerator, topology)


def _whole_cubes(accelerator: Accelerator, topology: Topology) -> bool:
    return (
        len(topology) == 3
        and all(side % 4 == 0 and 4 <= side <= LARGEST_DIMENSION for side in topology)
        and list(topology) == sorted(topology)
        and math.prod(topology) // math.prod(CUBE) <= accelerator.cubes
    )


def _candidates(accelerator: Accelerator) -> Iterator[Topology]:
    if accelerator.fabric == "2d":
        yield (1, 1)
        yield from combinations_with_replacement((2, 4, 8, 16), 2)
        return
    yield (1, 1, 1)
    yield from SUB_CUBE
    yield from combinations_with_replacement(range(4, LARGEST_DIMENSION + 1, 4), 3)


def _power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
