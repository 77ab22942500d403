"""Rules on LeaderWorkerSets: one partition a group, leader and worker alike."""

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.accelerators import CUBE, SUB_CUBE
from catalog.partitions import SHAPE_ANNOTATION, TPU
from catalog.source import READ, Source
from catalog.workloads.base import Flaw, Queue, over_quota, replicas_of
from catalog.workloads.template import Template, templates


def lws_flaws(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    spec, name = manifest.get("spec") or {}, str((manifest.get("metadata") or {}).get("name"))
    group = spec.get("leaderWorkerTemplate") or {}
    size, leader = int(group.get("size") or 1), group.get("leaderTemplate")
    path = "spec.leaderWorkerTemplate"
    made = templates(manifest)
    wanted = made[-1].slice if made else None
    if wanted and wanted.topology not in (*SUB_CUBE, CUBE):
        yield Flaw(
            path=f"{made[-1].path}.metadata.annotations[{SHAPE_ANNOTATION}]",
            value=wanted.shape,
            rule="all pods of a group must lie in one partition, the largest is a cube: it never "
            "fits",
            fix="use 4x4x4 or smaller, or a JobSet",
        )
    elif wanted and size != wanted.hosts:
        yield Flaw(
            path=f"{path}.size",
            value=size,
            rule=f"a slice of {wanted.shape} has {wanted.hosts} hosts; nobody else checks it, and "
            "the rest of the partition stays empty",
            fix=f"set {wanted.hosts}",
        )
    if size == 1 and leader:
        yield Flaw(
            path=f"{path}.leaderTemplate",
            value=None,
            rule="a group of one with a leader has no worker pods, and slices are made for those: "
            "it is never admitted",
            fix="remove leaderTemplate",
        )
    if leader and len(made) == 2:
        yield from _alike(*made)
    if wanted and queue.room(wanted):
        yield from over_quota("spec", wanted.chips, manifest, queue)
    if replicas_of(spec) > 1:
        yield Flaw(
            path="spec.replicas",
            value=spec.get("replicas"),
            rule="the slices of a scaled-down or evicted group stay taken while any group of the "
            "object runs",
            fix="use one LeaderWorkerSet of one replica a group, and add and remove objects",
            severity="warning",
        )
    limit = queue.releases.longest_lws_name
    if len(name) > limit:
        yield Flaw(
            path="metadata.name",
            value=name,
            rule=f"Kueue {queue.releases.kueue} labels pods with a name made of it: at most "
            f"{limit} characters, this has {len(name)}",
            fix=f"shorten it by {len(name) - limit}",
            source=Source("kubernetes-sigs/kueue issue 11409", READ),
        )


def _alike(leader: Template, worker: Template) -> Iterator[Flaw]:
    """Kueue tests whether a group fits with the worker's template alone."""
    for what, mine, theirs in (
        ("the shape", leader.annotations.get(SHAPE_ANNOTATION),
         worker.annotations.get(SHAPE_ANNOTATION)),
        ("nodeSelector", leader.selector, worker.selector),
        ("tolerations", leader.spec.get("tolerations"), worker.spec.get("tolerations")),
        (f"chips ({TPU})", leader.chips, worker.chips),
    ):  # fmt: skip
        if mine != theirs:
            yield Flaw(
                path=leader.path,
                value=mine,
                rule=f"{what} differs from the worker's {theirs}: the leader may never fit while "
                "the group holds its quota",
                fix="make the two alike",
                source=Source("kubernetes-sigs/kueue issue 15373", READ),
            )
