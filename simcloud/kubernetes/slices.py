"""Slices on simulated cubes: given to queued workloads, taken back from those that go.

Stands for Kueue's admission, the Kueue slice controller and GKE's own: first come first served by
priority, whole partitions, a higher priority pushes out JobSets of a lower one. A
LeaderWorkerSet that is pushed out would keep its Slices (slice controller 250d4b3, measured
2026-11-30), so here none is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simcloud.clock import duration
from simcloud.cloud import Request
from simcloud.faults import MESSAGES, Faults
from simcloud.kubernetes.kinds import kind_of
from simcloud.kubernetes.names import key
from simcloud.store import Record
from simcloud.values import Props, get

SLICE = "kubernetes:accelerator.gke.io/v1beta1:Slice"
NODE_POOL = "gcp:container/nodePool:NodePool"

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
SHAPE = "cloud.google.com/gke-tpu-slice-topology"
OWNER = "simcloud/owner"

HOSTS = 16
"""Hosts of a cube, 4x4x4 of four chips each (Google Cloud docs, 'TPU7x', read 2026-08)."""


@dataclass(frozen=True, kw_only=True)
class Cube:
    pool: Record
    block: str


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Slices of one shape that a workload asks for."""

    shape: str
    count: int
    priority: int
    queue: Record

    @property
    def hosts(self) -> int:
        return math.prod(map(int, self.shape.split("x"))) // 4


def shape_of(given: Any) -> str | None:
    """The shape in the first pod template that names one."""
    values: Any = ()
    if isinstance(given, Mapping):
        found = given.get(SHAPE)
        if isinstance(found, str):
            return found
        values = given.values()
    elif isinstance(given, list):
        values = given
    return next((shape for item in values if (shape := shape_of(item))), None)


def submit(request: Request, record: Record) -> None:
    """Give a workload its slices, if it may have them and they are there."""
    demand = _demand(request, record)
    if demand is None or owned(request, record):
        return
    cubes = _cubes(request, record.scope)
    taken = {each.key: each for each in _all(request, record.scope)}
    places = _places(demand, cubes, taken.values())
    for victim in _victims(request, record, demand) if places is None else ():
        for each in owned(request, victim):
            taken.pop(each.key)
        places = _places(demand, cubes, taken.values())
        if places is not None:
            break
    if places is None:
        return
    pushed_out = [each for each in _all(request, record.scope) if each.key not in taken]
    for each in pushed_out:
        request.store.drop(each.key)
    busy = duration("kind:Slice").delete if pushed_out else 0.0
    for index, place in enumerate(places):
        _form(request, record, demand, index, place, after=busy)


def owned(request: Request, record: Record) -> list[Record]:
    return [each for each in request.store.referrers(record.key) if each.type == SLICE]


def formed(request: Request, record: Record) -> bool:
    """Whether all its slices are ACTIVE. One that failed is given up, and asked for again."""
    mine = owned(request, record)
    failed = [each for each in mine if _state(each) == "FAILED"]
    for each in mine if failed else ():
        request.store.drop(each.key)
    return bool(mine) and not failed and all(_state(each) == "ACTIVE" for each in mine)


def drain(request: Request, record: Record) -> None:
    """Its pods end; GKE dismantles the links, unless a fault keeps a slice as it is."""
    for each in owned(request, record):
        if each.props["state"] in ("DEACTIVATING", "STUCK"):
            continue
        fault = Faults(request.store, lambda: None).next("delete", _as_slice(request, each.name))
        stuck = fault.kind in MESSAGES
        minutes = duration("kind:Slice").delete * fault.slower
        changed = {**vars(each), "props": {**each.props, "state": "DEACTIVATING"}}
        changed["ready"] = math.inf if stuck else time.time() + minutes * request.scale
        _put(request, Record(**changed), record)


def dismantling(request: Request, record: Record) -> str:
    """What the provider says when it waits in vain for the end of a workload; else nothing."""
    left = [each for each in owned(request, record) if time.time() < each.ready]
    if not left:
        return ""
    return (
        f"'{record.id}' timed out waiting to be deleted: finalizers might be preventing deletion "
        f"(foregroundDeletion); Slice {left[0].name} is DEACTIVATING and keeps its finalizer "
        "accelerator.gke.io/slice-finalizer"
    )


def free(request: Request, record: Record) -> None:
    """The slices of a workload that is gone go, and those that waited get their turn."""
    for each in owned(request, record):
        request.store.drop(each.key)
    for other in _workloads(request, record.scope):
        if other.key != record.key:
            submit(request, other)


def using(request: Request, queue: Record) -> list[Record]:
    """Slices of workloads that hold quota of a ClusterQueue."""
    return [each for each in _all(request, queue.scope) if each.props["queue"] == queue.key]


def made(
    request: Request, owner: Record, kind: str, name: str, *, props: Props, ready: float
) -> None:
    """A record that the cluster keeps for itself beside an object."""
    now = time.time()
    record = Record(
        key=key(owner.scope, kind, name),
        package="kubernetes",
        type=f"simcloud:{kind}",
        name=name,
        id=name,
        scope=owner.scope,
        status="ready",
        props=props,
        serial=0,
        created=now,
        ready=ready,
    )
    request.store.put(record, [owner.key])


def _demand(request: Request, record: Record) -> Demand | None:
    labels = get(record.props, "metadata.labels") or {}
    shape, name = shape_of(record.props), labels.get(QUEUE_LABEL)
    if shape is None or name is None:
        return None
    namespace = record.id.rpartition("/")[0]
    local = request.store.get(key(record.scope, "kueue.x-k8s.io/LocalQueue", f"{namespace}/{name}"))
    if local is None:
        return None
    queue = request.store.get(
        key(record.scope, "kueue.x-k8s.io/ClusterQueue", get(local.props, "spec.clusterQueue"))
    )
    if queue is None:
        return None
    priority = request.store.get(
        key(record.scope, "kueue.x-k8s.io/WorkloadPriorityClass", labels.get(PRIORITY_LABEL, ""))
    )
    jobs = get(record.props, "spec.replicatedJobs") or []
    count = sum(int(each.get("replicas", 1)) for each in jobs) or int(
        get(record.props, "spec.replicas") or 1
    )
    return Demand(
        shape=shape,
        count=count,
        priority=int(priority.props["value"]) if priority else 0,
        queue=queue,
    )


def _cubes(request: Request, cluster: str) -> list[Cube]:
    """Cubes of the cluster's TPU7x pools, by block of their reservation."""
    found = []
    for pool in request.store.all(NODE_POOL):
        machine = get(pool.props, "nodeConfig.machineType")
        home = str(pool.props.get("cluster", "")).rsplit("/", 1)[-1]
        if machine != "tpu7x-standard-4t" or not cluster.endswith(home) or pool.status != "ready":
            continue
        values = get(pool.props, "nodeConfig.reservationAffinity.values") or [""]
        found.append(Cube(pool=pool, block=values[0].partition("/reservationSubBlocks")[0]))
    return sorted(found, key=lambda cube: cube.pool.name)


def _places(demand: Demand, cubes: list[Cube], taken: Any) -> list[list[tuple[Cube, str]]] | None:
    """For each slice its partitions, as cube and partition id; None if they do not all fit."""
    busy = {host for each in taken for host in each.props["hosts"]}
    size = min(demand.hosts, HOSTS)
    part = demand.shape if demand.hosts < HOSTS else "4x4x4"
    free: dict[str, list[tuple[Cube, int]]] = {}
    for cube in cubes:
        for index in range(HOSTS // size):
            if not busy & set(_hosts(cube, index, size)):
                free.setdefault(cube.block, []).append((cube, index))
    needed = max(1, demand.hosts // HOSTS)
    places = []
    for found in free.values():
        for start in range(0, len(found) - needed + 1, needed):
            places.append(
                [
                    (cube, f"{cube.pool.name}-{part}-{index}")
                    for cube, index in found[start : start + needed]
                ]
            )
    return places[: demand.count] if len(places) >= demand.count else None


def _hosts(cube: Cube, index: int, size: int) -> list[str]:
    return [f"{cube.pool.name}-{host}" for host in range(index * size, (index + 1) * size)]


def _form(
    request: Request,
    record: Record,
    demand: Demand,
    index: int,
    place: list[tuple[Cube, str]],
    *,
    after: float,
) -> None:
    name = f"{record.id.replace('/', '-')}-{index}"
    fault = Faults(request.store, lambda: None).next("create", _as_slice(request, name))
    minutes = after + duration("kind:Slice").create * fault.slower
    now = time.time()
    size = min(demand.hosts, HOSTS)
    hosts = [
        host for cube, id_ in place for host in _hosts(cube, int(id_.rpartition("-")[2]), size)
    ]
    made_slice = Record(
        key=key(record.scope, kind_of(SLICE), name),
        package="kubernetes",
        type=SLICE,
        name=name,
        id=name,
        scope=record.scope,
        status="ready",
        props={
            "metadata": {"name": name, "annotations": {OWNER: record.id}},
            "spec": {
                "type": "tpu7x",
                "topology": demand.shape,
                "partitionIds": [id_ for _, id_ in place],
            },
            "queue": demand.queue.key,
            "hosts": hosts,
            "pools": sorted({cube.pool.key for cube, _ in place}),
            "state": "FAILED" if fault.kind in MESSAGES else "ACTIVE",
        },
        serial=0,
        created=now,
        ready=now + minutes * request.scale,
    )
    _put(request, made_slice, record)


def _put(request: Request, one: Record, owner: Record) -> None:
    # The pools are among its references: they cannot go before it.
    request.store.put(one, [owner.key, *one.props["pools"]])


def _state(one: Record) -> str:
    return "ACTIVATING" if time.time() < one.ready else str(one.props["state"])


def _all(request: Request, cluster: str) -> list[Record]:
    return request.store.all(SLICE, cluster)


def _workloads(request: Request, cluster: str) -> Iterator[Record]:
    """Workloads that may have slices, the highest priority first."""
    found = [
        (demand.priority, each)
        for each in request.store.all(scope=cluster)
        if each.type.endswith((":JobSet", ":LeaderWorkerSet"))
        and (demand := _demand(request, each)) is not None
    ]
    yield from (each for _, each in sorted(found, key=lambda pair: -pair[0]))


def _victims(request: Request, record: Record, demand: Demand) -> Iterator[Record]:
    """JobSets of a lower priority that hold slices of the same queue, the lowest first."""
    for other in reversed(list(_workloads(request, record.scope))):
        theirs = _demand(request, other)
        if (
            theirs is not None
            and other.type.endswith(":JobSet")
            and theirs.queue.key == demand.queue.key
            and theirs.priority < demand.priority
            and owned(request, other)
        ):
            yield other


def _as_slice(request: Request, name: str) -> Request:
    return Request(urn="", type=SLICE, name=name, config=request.config, store=request.store)
