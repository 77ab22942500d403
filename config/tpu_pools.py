"""TPU node pools: which slices, how many, on what kind of capacity."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from catalog.accelerators import (
    ACCELERATORS,
    CUBE,
    MACHINES,
    PLAN_TPUS,
    TPU7X,
    Slice,
    parse_topology,
    slices,
)
from catalog.source import docs
from config.fields import Count, ProjectId, ResourceName, Section, Whole, broken
from config.problem import nearest

MOST_CUBES = 999
"""Names of their pools count with three digits; no block has as many."""


def _accelerator(value: Any) -> Any:
    if not isinstance(value, str) or value in ACCELERATORS:
        return value
    if value in MACHINES:
        fix = f"name the generation, {MACHINES[value][0].name!r}; the machine type follows from it"
    else:
        fix = nearest(value, ACCELERATORS)
    raise broken(f"one of {', '.join(ACCELERATORS)}", fix=fix, source=PLAN_TPUS)


def _topology(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        parse_topology(value)
    except ValueError as error:
        raise broken(str(error), fix="write it as 2x4 or 2x2x1", source=PLAN_TPUS) from None
    return value


AcceleratorName = Annotated[str, BeforeValidator(_accelerator)]
TopologyText = Annotated[str, BeforeValidator(_topology)]


class Reservation(Section):
    """Capacity reserved beforehand, named down to a block or to one sub-block per cube."""

    kind: Literal["reservation"]
    name: ResourceName
    project: ProjectId | None = None
    """Owner of a shared reservation, when it is another project."""
    block: ResourceName | None = None
    """All cubes that join into one super-slice lie in one block."""
    sub_blocks: tuple[ResourceName, ...] = ()
    """One per cube, in order; without them GKE picks free ones of the block."""

    def path(self, project: str, sub_block: str | None = None) -> str:
        """What node pools ask for: the reservation, its block, or one sub-block of it."""
        parts = ["projects", self.project or project, "reservations", self.name]
        if self.block is not None:
            parts += ["reservationBlocks", self.block]
        if sub_block is not None:
            parts += ["reservationSubBlocks", sub_block]
        return "/".join(parts)


class OnDemand(Section):
    """Capacity at list price, when there is some."""

    kind: Literal["on-demand"]


class Spot(Section):
    """Cheap capacity that Google may take back at any time."""

    kind: Literal["spot"]


class FlexStart(Section):
    """Capacity that is waited for and lives for at most seven days."""

    kind: Literal["flex-start"]
    max_run_hours: Annotated[Whole, Field(ge=1, le=168)] = 168


Capacity = Annotated[Reservation | OnDemand | Spot | FlexStart, Field(discriminator="kind")]


class SliceCount(Section):
    """How many slices, between two bounds when the pool scales."""

    min: Annotated[Whole, Field(ge=0)]
    max: Count

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise broken(
                f"min {self.min} is above max {self.max}",
                fix=f"raise max to {self.min}",
                source=docs("About GKE cluster autoscaling"),
            )
        return self


class StaticPool(Section):
    """A pool whose slice shape is fixed when it is made."""

    slicing: Literal["static"] = "static"
    accelerator: AcceleratorName
    """The generation; the machine type follows from it and the topology."""
    topology: TopologyText
    """Chips along each axis of the slice: 2x4, 4x4x4."""
    chips_per_host: Count | None = None
    """Decides between machine types where a topology exists on two of them."""
    slices: SliceCount
    """A pool of many hosts is exactly one slice; single hosts are counted one by one."""
    capacity: Capacity
    placement_type: Literal["", "COMPACT"] = ""
    """What is sent beside a workload policy; sources disagree. Fixed once a pool exists."""
    sysctls: dict[str, str] = Field(default_factory=dict)
    """Kernel parameters of the nodes, of those that GKE takes: `vm.max_map_count: "8388608"`."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the provider's NodePool that this schema does not model, in snake case."""

    def candidates(self) -> list[Slice]:
        """The slices the words of this pool may mean; exactly one when they are right."""
        return [
            each
            for each in slices(ACCELERATORS[self.accelerator], parse_topology(self.topology))
            if self.chips_per_host in (None, each.machine.chips)
        ]

    @property
    def slice(self) -> Slice:
        (only,) = self.candidates()
        return only

    def reservation(self, project: str) -> str | None:
        """Path of the reservation the pool consumes, if it consumes one."""
        if not isinstance(self.capacity, Reservation):
            return None
        return self.capacity.path(project, next(iter(self.capacity.sub_blocks), None))

    @property
    def flex_start_hours(self) -> int | None:
        return self.capacity.max_run_hours if isinstance(self.capacity, FlexStart) else None

    @property
    def max_hosts(self) -> int:
        return self.slices.max * self.slice.hosts

    @property
    def max_chips(self) -> int:
        return self.slices.max * self.slice.chips


class DynamicPool(Section):
    """Cubes whose chips Kueue joins into sub- and super-slices while workloads run."""

    slicing: Literal["dynamic"]
    accelerator: AcceleratorName
    cubes: Annotated[Count, Field(le=MOST_CUBES)]
    """Node pools of 4x4x4: 64 chips on 16 hosts each."""
    capacity: Capacity
    """A reservation with its block: no other capacity slices dynamically."""
    placement_type: Literal["", "COMPACT"] = ""
    """What is sent beside the workload policy; sources disagree. Fixed once a pool exists."""
    sysctls: dict[str, str] = Field(default_factory=dict)
    """Kernel parameters of the nodes, of those that GKE takes: `vm.max_map_count: "8388608"`."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the provider's NodePool that this schema does not model, in snake case."""

    @property
    def slice(self) -> Slice:
        """One cube."""
        return cube()

    @property
    def max_hosts(self) -> int:
        return self.cubes * self.slice.hosts

    @property
    def max_chips(self) -> int:
        return self.cubes * self.slice.chips

    def reservations(self, project: str) -> list[str]:
        """A reservation path per cube; a checked pool has no other capacity."""
        if not isinstance(self.capacity, Reservation):
            msg = "dynamic slicing on capacity that is no reservation"
            raise TypeError(msg)
        picked = self.capacity.sub_blocks or (None,) * self.cubes
        return [self.capacity.path(project, sub_block) for sub_block in picked]


def cube() -> Slice:
    """4x4x4 of TPU7x: 64 chips on 16 hosts."""
    (only,) = slices(TPU7X, CUBE)
    return only


def _slicing(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("slicing", "static"))
    # What is no pool at all is told by the commoner kind.
    return str(getattr(value, "slicing", "static"))


TpuPool = Annotated[
    Annotated[StaticPool, Tag("static")] | Annotated[DynamicPool, Tag("dynamic")],
    Discriminator(_slicing),
]
