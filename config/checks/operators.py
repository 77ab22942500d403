"""Rules on Kueue, JobSet, LeaderWorkerSet and the slice controller."""

from collections.abc import Iterator, Sequence

from catalog import operator_sizes
from catalog.allocatable import NODE_SIZES, Room, of_machine
from catalog.images import IMAGE_REFERENCES, by_digest, why_loose
from catalog.operator_sizes import Size
from catalog.quantities import amount
from catalog.versions import GkeVersion
from catalog.workloads import MEASURED
from config.cluster import Cluster, SystemPool
from config.problem import Problem
from config.queueing import CpuJobs, Queueing
from config.sizes import most_nodes
from config.tpu_pools import TpuPool

PATH = "tpuserve:queueing"
MIB = 1 << 20


def the_slice_controller_stays_the_same(
    queueing: Queueing | None, protect: bool
) -> Iterator[Problem]:
    if queueing is None:
        return
    image, path = queueing.slice_controller.image, f"{PATH}.sliceController.image"
    loose = why_loose(image)
    if protect and not by_digest(image):
        yield Problem(
            path=path,
            value=image,
            rule=f"{loose or 'a tag can be moved'}; in a protected stack it is named by its digest",
            fix="add @sha256:...; `docker buildx imagetools inspect IMAGE` shows it",
            source=IMAGE_REFERENCES,
        )
    elif loose:
        yield Problem(
            path=path,
            value=image,
            rule=loose,
            fix="name an exact version, better with @sha256:...",
            source=IMAGE_REFERENCES,
            severity="warning",
        )


def the_operators_know_this_kubernetes(
    cluster: Cluster, queueing: Queueing | None
) -> Iterator[Problem]:
    if queueing is None:
        return
    found = queueing.releases.set
    minor = GkeVersion.parse(cluster.version).minor[1]
    if not found.oldest_minor <= minor <= found.newest_minor:
        yield Problem(
            path=f"{PATH}.releases",
            value=f"kueue {found.kueue}",
            rule=f"was tested on Kubernetes 1.{found.oldest_minor} to 1.{found.newest_minor}, the "
            f"cluster is 1.{minor}",
            fix="leave `releases` out for the newest set, or try it in a stack of its own",
            source=found.source,
            severity="warning",
        )


def slices_have_time_to_form(queueing: Queueing | None) -> Iterator[Problem]:
    if queueing and queueing.pods_ready_minutes <= queueing.slice_controller.activation_minutes:
        yield Problem(
            path=f"{PATH}.podsReadyMinutes",
            value=queueing.pods_ready_minutes,
            rule="pods start when their slices are there, which may take "
            f"{queueing.slice_controller.activation_minutes} minutes: all would be sent back",
            fix="raise it by the time an image and a model take to load",
            source=MEASURED,
        )


def operators_fit_the_system_pool(
    cluster: Cluster, queueing: Queueing | None, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    pool = cluster.system_pool
    node = of_machine(pool.machine)
    if queueing is None or node is None:
        return
    operators = list(_operators(cluster, queueing, tpu_pools))
    large = False
    for path, what, size, _ in operators:
        if size.cpus > node.cpus or size.memory_mib > node.memory_mib:
            large = True
            yield Problem(
                path=path,
                value=None,
                rule=f"{what} asks for {size.cpus:g} CPUs and {size.memory_mib} MiB; a "
                f"{pool.machine} has {node.cpus:g} CPUs and {node.memory_mib} MiB for pods",
                fix="use a larger tpuserve:cluster.systemPool.machine",
                source=NODE_SIZES,
            )
    if not large:
        asked = [(size, count) for _, _, size, count in operators]
        yield from _all_fit(asked, node, pool, queueing.cpu_jobs)


def _all_fit(
    asked: Sequence[tuple[Size, int]], node: Room, pool: SystemPool, jobs: CpuJobs
) -> Iterator[Problem]:
    """Operators, and beside them what jobs without TPUs may use, on all nodes."""
    cpus = pool.max * node.cpus - sum(size.cpus * count for size, count in asked)
    memory = pool.max * node.memory_mib - sum(size.memory_mib * count for size, count in asked)
    nodes = f"{pool.max} x {pool.machine}"
    for field, unit, left, given in (
        ("cpu", "CPUs", cpus, jobs.cpu),
        ("memory", "MiB", memory, jobs.memory),
    ):
        wanted = amount(given) / (MIB if field == "memory" else 1)
        if left < 0:
            yield Problem(
                path="tpuserve:cluster.systemPool.max",
                value=pool.max,
                rule=f"the operators ask for {-left:g} {unit} more than {nodes} have",
                fix="raise it, or use a larger machine",
                source=NODE_SIZES,
            )
        elif wanted > left and min(cpus, memory) >= 0:
            yield Problem(
                path=f"{PATH}.cpuJobs.{field}",
                value=given,
                rule=f"beside the operators {nodes} have {left:g} {unit} left: jobs beyond them "
                "are admitted and never start",
                fix="lower it, or raise tpuserve:cluster.systemPool.max",
                source=NODE_SIZES,
            )


def _operators(
    cluster: Cluster, queueing: Queueing, tpu_pools: dict[str, TpuPool]
) -> Iterator[tuple[str, str, Size, int]]:
    """The field that sizes it, its name, the size of a pod and how many there are."""
    counts = operator_sizes.replicas(cluster.system_pool.min)
    machine = "tpuserve:cluster.systemPool.machine"
    nodes = most_nodes(cluster, tpu_pools)
    yield machine, f"Kueue of {nodes} nodes", operator_sizes.kueue(nodes), counts["kueue"]
    yield machine, "JobSet", operator_sizes.JOBSET, counts["jobset"]
    yield machine, "LeaderWorkerSet", operator_sizes.LWS, counts["lws"]
    controller = queueing.slice_controller
    size = Size(cpus=float(amount(controller.cpu)), memory_mib=int(amount(controller.memory) / MIB))
    yield f"{PATH}.sliceController", "the slice controller", size, 1


CHECKS = (
    the_slice_controller_stays_the_same,
    the_operators_know_this_kubernetes,
    slices_have_time_to_form,
    operators_fit_the_system_pool,
)
