"""Queues for TPU slices: who may use them, which shapes, and what goes first."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from catalog.jobs import Job
from catalog.partitions import DYNAMIC, UnknownShapeError, slice_of
from catalog.releases import LIBRARIES, RELEASE_SETS, ReleaseSet, matched
from catalog.source import READ, Source
from catalog.workloads import MEASURED, Queue
from config.fields import Count, ResourceName, Section, Whole, broken, matching
from config.tpu_pools import DynamicPool, Reservation, TopologyText, TpuPool

KUEUE = Source("Kueue docs, 'Cluster Queue' and 'Workload Priority Class'", READ)
NEWEST = RELEASE_SETS[0]

QUEUE = "tpu"
"""Name of the LocalQueue in every namespace."""

Quantity = Annotated[
    str,
    matching(
        r"\d+(\.\d+)?([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?",
        "a quantity of Kubernetes: 16, 500m, 64Gi",
        Source("Kubernetes docs, 'Resource Management for Pods and Containers'", READ),
    ),
]

Label = Annotated[
    ResourceName,
    matching(
        r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
        "is the value of a label, which has at most 63 characters",
        Source("Kubernetes docs, 'Labels and Selectors'", READ),
    ),
]

Namespace = Annotated[
    ResourceName,
    matching(
        r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
        "starts with a letter and has at most 63 letters, digits and hyphens: names of Slices "
        "begin with it, and with another start the workload holds its quota for ever",
        MEASURED,
    ),
]


def _shape(text: str) -> str:
    try:
        slice_of(text)
    except UnknownShapeError as error:
        raise broken(
            str(error), fix="use 2x2x1, 2x2x2, 4x4x4, 4x4x8, say", source=DYNAMIC
        ) from None
    return text


Shape = Annotated[TopologyText, AfterValidator(_shape)]


class Releases(Section):
    """Versions of the operators: one of the tested sets, never a mixture."""

    kueue: str = NEWEST.kueue
    jobset: str = NEWEST.jobset
    lws: str = NEWEST.lws

    @model_validator(mode="after")
    def _tested(self) -> Self:
        if matched(kueue=self.kueue, jobset=self.jobset, lws=self.lws) is None:
            known = " or ".join(map(str, RELEASE_SETS))
            raise broken(
                f"kueue {self.kueue}, jobset {self.jobset} and lws {self.lws} were not tested "
                "together: an operator reads the objects of the other two by the fields it was "
                "built with",
                fix=f"use {known}",
                source=LIBRARIES,
            )
        return self

    @property
    def set(self) -> ReleaseSet:
        found = matched(kueue=self.kueue, jobset=self.jobset, lws=self.lws)
        assert found is not None  # noqa: S101  validated above
        return found


class SliceController(Section):
    """The Kueue slice controller: it turns what Kueue admits into Slices of GKE."""

    image: str
    """Nobody publishes it under a fixed version: copy one, and name the copy by its digest."""
    cpu: Quantity = "2"
    memory: Quantity = "4Gi"
    activation_minutes: Count = 6
    """How long a Slice may take to form before its workload is sent back to the queue."""
    retry_seconds: Count = 10
    """Pause before a workload whose Slice failed is tried again."""
    partition_health: Literal["HEALTHY", "HEALTHY_AND_DEGRADED"] = "HEALTHY_AND_DEGRADED"
    """Partitions for workloads that do not say which they accept."""


class Team(Section):
    """A share of the chips for some namespaces."""

    namespaces: tuple[Namespace, ...] = Field(min_length=1)
    chips: Count
    """Guaranteed; what others leave idle is borrowed."""


class CpuJobs(Section):
    """What jobs without TPUs may use of the system pool, all together."""

    cpu: Quantity = "16"
    memory: Quantity = "64Gi"


class SlicedJob(Section):
    """A job that runs to its end on slices of one shape."""

    namespace: Namespace
    image: str
    command: tuple[str, ...] = Field(min_length=1)
    shape: Shape
    count: Count = 1
    """Slices side by side; the job starts when all of them are there."""
    priority: ResourceName
    cpu: Quantity = "32"
    """Of each host; a pod has the host to itself."""
    memory: Quantity = "128Gi"
    restarts: Annotated[Whole, Field(ge=0)] = 3
    """How often all pods start again after one failed."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables of the container."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Fields of the pod's spec that this schema does not model, in Kubernetes' words."""
    container_extra: dict[str, Any] = Field(default_factory=dict)
    """Fields of the container, such as volumeMounts and envFrom; lists are joined with ours."""


class SmokeShape(Section):
    shape: Shape
    count: Count = 1
    priority: ResourceName


class Smoke(Section):
    """Two jobs that count devices: many sub-slices, then a super-slice that preempts them."""

    namespace: Namespace | None = None
    """The first namespace of the queues unless given."""
    image: str
    """Anything with Python and JAX for TPU."""
    sub: SmokeShape = SmokeShape.model_validate({"shape": "2x2x2", "count": 6, "priority": "low"})
    super: SmokeShape = SmokeShape.model_validate({"shape": "4x4x8", "priority": "medium"})
    seconds: Count = 300
    """How long the first job computes, so that the second finds it running."""


class Queueing(Section):
    """Kueue, JobSet, LeaderWorkerSet and the queues for slices of the dynamic pools."""

    namespaces: tuple[Namespace, ...] = ()
    """They share all chips; `teams` gives each a part instead."""
    teams: dict[Label, Team] = Field(default_factory=dict)
    cohort: Label | None = None
    """Under this name teams lend each other what they do not use."""
    shapes: tuple[Shape, ...] = Field(min_length=1)
    """Slices that may be asked for; the topology has a level for each and no other. Let jobs end
    before they change (`stop: Hold`): Kueue does not see the hosts of those that run (adr/0021)."""
    priorities: dict[Label, int] = Field(
        default_factory=lambda: {"low": 1000, "medium": 2000, "high": 3000}, min_length=1
    )
    serving_priority: Label = "high"
    """Class of model servers: no job may be above it."""
    releases: Releases = Releases()
    slice_controller: SliceController
    stop: Literal["None", "Hold", "HoldAndDrain"] = "None"
    """Hold admits nothing new; HoldAndDrain also sends back what runs, before a destroy, say."""
    pods_ready_minutes: Count = 300
    """A workload whose pods are not ready by then is sent back; servers load for hours."""
    cpu_jobs: CpuJobs = CpuJobs()
    jobs: dict[ResourceName, SlicedJob] = Field(default_factory=dict)
    smoke: Smoke | None = None

    @property
    def every_namespace(self) -> tuple[str, ...]:
        shared = (*self.namespaces, *(n for team in self.teams.values() for n in team.namespaces))
        return tuple(dict.fromkeys(shared))

    def queue(self, tpu_pools: Mapping[str, TpuPool]) -> Queue:
        """What workloads are checked against."""
        return Queue(
            name=QUEUE,
            namespaces=self.every_namespace,
            shapes=self.shapes,
            blocks=blocks(tpu_pools),
            priorities=self.priorities,
            serving_priority=self.serving_priority,
            chips={
                namespace: self.most_chips(share, tpu_pools)
                for namespaces, share in self.shares(tpu_pools).values()
                for namespace in namespaces
            },
            releases=self.releases.set,
        )

    def most_chips(self, share: int, tpu_pools: Mapping[str, TpuPool]) -> int:
        """What a queue with this share may hand out, with all that others of its cohort lend."""
        if self.cohort is None:
            return share
        return sum(chips for _, chips in self.shares(tpu_pools).values())

    def job(self, key: str) -> Job:
        """A job of the stack file, as its component takes it."""
        said = self.jobs[key]
        fields = {each: getattr(said, each) for each in SlicedJob.model_fields}
        return Job(name=key, queue=QUEUE, **fields)

    def shares(self, tpu_pools: Mapping[str, TpuPool]) -> dict[str, tuple[tuple[str, ...], int]]:
        """Namespaces and chips by ClusterQueue."""
        if self.teams:
            return {key: (team.namespaces, team.chips) for key, team in self.teams.items()}
        return {QUEUE: (self.namespaces, chips(tpu_pools))}


def blocks(tpu_pools: Mapping[str, TpuPool]) -> list[int]:
    """Cubes of the dynamic pools by block of a reservation: slices never cross blocks."""
    found: dict[object, int] = {}
    for key, pool in tpu_pools.items():
        if isinstance(pool, DynamicPool):
            block: object = key
            if isinstance(pool.capacity, Reservation):
                block = (pool.capacity.project, pool.capacity.name, pool.capacity.block)
            found[block] = found.get(block, 0) + pool.cubes
    return list(found.values())


def chips(tpu_pools: Mapping[str, TpuPool]) -> int:
    """Chips of all dynamic pools: what the queues hand out."""
    return sum(pool.max_chips for pool in tpu_pools.values() if isinstance(pool, DynamicPool))
