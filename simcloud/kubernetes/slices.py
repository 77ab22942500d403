"""Slices on simulated cubes: given to queued workloads, taken back from those that go.

Stands for Kueue's admission, the Kueue slice controller and GKE's own: first come first served by
priority, whole partitions, a higher priority pushes out JobSets of a lower one. A
LeaderWorkerSet that is pushed out would keep its Slices (slice controller 250d4b3, measured
2026-11-30), so here none is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simcloud.clock import duration
from simcloud.cloud import Request
from simcloud.faults import MESSAGES, Faults
from simcloud.kubernetes import conditions
from simcloud.kubernetes.kinds import kind_of
from simcloud.kubernetes.names import key
from simcloud.kubernetes.partitions import Part, Place, cubes, places
from simcloud.store import Record
from simcloud.values import Props, get

SLICE = "kubernetes:accelerator.gke.io/v1beta1:Slice"

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
SHAPE = "cloud.google.com/gke-tpu-slice-topology"
OWNER = "simcloud/owner"
WORKLOAD = "kueue.x-k8s.io/Workload"


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a workload asks for: all of it at once."""

    parts: tuple[Part, ...]
    priority: int
    queue: Record


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
    if conditions.queue_missing(request.store, demand.queue):
        return
    there = cubes(request, record.scope)
    taken = {each.key: each for each in _all(request, record.scope)}
    found = places(demand.parts, there, _hosts(taken.values()))
    victims = []
    for victim in _victims(request, record, demand) if found is None else ():
        victims.append(victim)
        for each in owned(request, victim):
            taken.pop(each.key)
        found = places(demand.parts, there, _hosts(taken.values()))
        if found is not None:
            break
    if found is None:
        return
    pushed_out = [each for each in _all(request, record.scope) if each.key not in taken]
    for each in pushed_out:
        request.store.drop(each.key)
    for victim in victims:
        _tell(request, victim, f"pushed out by {record.id}")
    busy = duration("kind:Slice").delete if pushed_out else 0.0
    for index, place in enumerate(found):
        _form(request, record, demand, index, place, after=busy)
    _tell(request, record, "")


def _hosts(taken: Iterable[Record]) -> set[str]:
    return {host for each in taken for host in each.props["hosts"]}


def send_back(request: Request, queue: Record) -> None:
    """A queue is drained: JobSets give their slices back, but for a slice that is stuck.

    LeaderWorkerSets keep theirs (slice controller 250d4b3, measured 2026-11-30).
    """
    for record in list(_workloads(request, queue.scope)):
        demand = _demand(request, record)
        if demand is None or demand.queue.key != queue.key or not record.type.endswith(":JobSet"):
            continue
        if not owned(request, record):
            continue
        drain(request, record)
        for each in owned(request, record):
            if each.ready < math.inf:
                request.store.drop(each.key)
        _tell(request, record, "sent back to its queue")


def next_turn(request: Request, cluster: str) -> None:
    """Those that waited get their turn."""
    for record in list(_workloads(request, cluster)):
        submit(request, record)


def owned(request: Request, record: Record) -> list[Record]:
    return [each for each in request.store.referrers(record.key) if each.type == SLICE]


def formed(request: Request, record: Record) -> float | None:
    """Since when all its slices are ACTIVE. One that failed is given up, and asked for again."""
    mine = owned(request, record)
    failed = [each for each in mine if state(each) == "FAILED"]
    for each in mine if failed else ():
        request.store.drop(each.key)
    if not mine or failed or any(state(each) != "ACTIVE" for each in mine):
        return None
    return max(each.ready for each in mine)


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
    request.store.drop(key(record.scope, WORKLOAD, record.id))
    for other in list(_workloads(request, record.scope)):
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
    return Demand(
        parts=tuple(_parts(record.props, shape)),
        priority=int(priority.props["value"]) if priority else 0,
        queue=queue,
    )


def _parts(given: Props, shape: str) -> Iterator[Part]:
    jobs = get(given, "spec.replicatedJobs")
    if jobs is None:
        groups = get(given, "spec.replicas")
        yield from [Part(shape=shape, count=1)] * (1 if groups is None else int(groups))
    for each in jobs or ():
        replicas = each.get("replicas")
        yield Part(shape=shape_of(each) or shape, count=1 if replicas is None else int(replicas))


def _form(
    request: Request,
    record: Record,
    demand: Demand,
    index: int,
    place: Place,
    *,
    after: float,
) -> None:
    name = f"{record.id.replace('/', '-')}-{index}"
    fault = Faults(request.store, lambda: None).next("create", _as_slice(request, name))
    minutes = after + duration("kind:Slice").create * fault.slower
    now = time.time()
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
                "topology": place.shape,
                "partitionIds": list(place.ids),
            },
            "queue": demand.queue.key,
            "hosts": list(place.hosts),
            "pools": list(place.pools),
            "state": "FAILED" if fault.kind in MESSAGES else "ACTIVE",
        },
        serial=0,
        created=now,
        ready=now + minutes * request.scale,
    )
    _put(request, made_slice, record)


def _tell(request: Request, record: Record, lost: str) -> None:
    """Kueue's Workload of an object: what it was given, and how it lost it."""
    demand = _demand(request, record)
    props = {
        "owner": record.id,
        "kind": record.type.rpartition(":")[2],
        "asked": [f"{each.count} x {each.shape}" for each in demand.parts] if demand else [],
        "lost": lost,
    }
    made(request, record, WORKLOAD, record.id, props=props, ready=time.time())


def _put(request: Request, one: Record, owner: Record) -> None:
    # The pools are among its references: they cannot go before it.
    request.store.put(one, [owner.key, *one.props["pools"]])


def state(one: Record) -> str:
    """As the Slice's status says it."""
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
