"""Kueue: quota, checks, topologies and priorities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.kinds import (
    ACCELERATOR_LABEL,
    CLUSTER_QUEUE,
    FLAVOR,
    JOBSET,
    KUEUE_TOPOLOGY,
    LOCAL_QUEUE,
    LWS,
    PRIORITY_CLASS,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    TPU_RESOURCE,
    label,
)
from rules.model import DROP, Guard, Node, Resource, Setting, Severity, Stack, UndecidedError, rule
from rules.pools import TPU_POOL, machine_of, max_chips
from rules.tpu_cluster import slice_shapes

SENTINEL = 100_000


def _name(resource: Resource) -> str:
    return resource.text("metadata.name") or resource.name


def _named(selector: Any, name: str | None, stack: Stack) -> Resource | None:
    return next((r for r in stack.of(selector) if _name(r) == name), None)


def _quotas(queue: Resource) -> Iterator[tuple[str, str, Node]]:
    """Flavour, resource and the node that holds its quota."""
    for group in queue.each("spec.resourceGroups"):
        for flavor in group.each("flavors"):
            for entry in flavor.each("resources"):
                yield flavor.text("name") or "", entry.text("name") or "", entry


def _capacity(flavor: Resource, stack: Stack) -> int:
    """Chips of the pools whose nodes a flavour selects."""
    labels = flavor.mapping("spec.nodeLabels")
    total = 0
    for pool in stack.of(TPU_POOL):
        machine = machine_of(pool)
        if machine is None:
            continue
        own = pool.mapping("nodeConfig.labels") | {ACCELERATOR_LABEL: machine.generation.label}
        if all(own.get(key, value) == value for key, value in labels.items()):
            total += max_chips(pool) or 0
    return total


def _with_tpu_quota(groups: Any, value: int) -> Any:
    """Resource groups with every TPU quota replaced."""
    if isinstance(groups, list):
        return [_with_tpu_quota(item, value) for item in groups]
    if not isinstance(groups, dict):
        return groups
    if groups.get("name") == TPU_RESOURCE:
        return {**groups, "nominalQuota": value}
    return {key: _with_tpu_quota(item, value) for key, item in groups.items()}


@rule(
    "TPU-27",
    "Kueue's quota is the chips that exist.",
    severity=Severity.HIGH,
    on=CLUSTER_QUEUE,
    whole_stack=True,
    fix="Set nominalQuota of google.com/tpu to the chips of the flavour's pools.",
    url=links.KUEUE,
    settings={
        "topologyIsOnlyLimit": Setting(
            "boolean", False, "allow quota above the chips, as Google's samples do"
        )
    },
    guards=[
        Guard("spec.resourceGroups", lambda groups: _with_tpu_quota(groups, 999_999)),
        Guard("spec.resourceGroups", lambda groups: _with_tpu_quota(groups, 1)),
    ],
)
def real_quota(queue: Resource, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    if settings["topologyIsOnlyLimit"]:
        return
    for flavor_name, resource, entry in _quotas(queue):
        quota = entry.raw("nominalQuota")
        count = entry.number("nominalQuota")
        if _is_sentinel(quota, resource):
            yield (
                f"{entry.at('nominalQuota')} of {resource} is {quota}, no limit at all: set what "
                "exists"
            )
            continue
        flavor = _named(FLAVOR, flavor_name, stack)
        if resource != TPU_RESOURCE or count is None or flavor is None or not stack.of(TPU_POOL):
            continue
        if count == 0 and ACCELERATOR_LABEL not in flavor.mapping("spec.nodeLabels"):
            continue  # nodes without TPUs
        chips = _capacity(flavor, stack)
        if count > chips:
            yield (
                f"{entry.at('nominalQuota')} is {count}, the pools of {flavor_name} have {chips} "
                "chips"
            )
        elif count < chips and not queue.text("spec.cohortName") and _only_queue(stack):
            yield (
                f"{entry.at('nominalQuota')} is {count}, so {chips - count} chips of "
                f"{flavor_name} can never be used: set {chips}"
            )


def _only_queue(stack: Stack) -> bool:
    return len(stack.of(CLUSTER_QUEUE)) == 1


_SENTINEL_QUANTITY = re.compile(r"9{5,}([kMGTPE]i?)?|1e9")


def _is_sentinel(quota: Any, resource: str) -> bool:
    """Whether a quota stands for no limit: all nines, or more than any block has."""
    text = str(quota)
    huge = text.isdigit() and int(text) >= SENTINEL
    return bool(_SENTINEL_QUANTITY.fullmatch(text)) or (huge and resource in {TPU_RESOURCE, "cpu"})


@rule(
    "QUE-01",
    "A local queue leads to a cluster queue.",
    severity=Severity.HIGH,
    on=LOCAL_QUEUE,
    whole_stack=True,
    fix="Name a ClusterQueue of the stack in spec.clusterQueue.",
    url=links.KUEUE,
    guards=[Guard("spec.clusterQueue", "nowhere")],
)
def queue_leads_somewhere(queue: Resource, stack: Stack) -> Iterator[str]:
    name = queue.text("spec.clusterQueue")
    if stack.of(CLUSTER_QUEUE) and _named(CLUSTER_QUEUE, name, stack) is None:
        yield (
            f"spec.clusterQueue {name} is no ClusterQueue of the stack: workloads would wait for "
            "ever"
        )


@rule(
    "QUE-02",
    "A cluster queue uses the fields of its API version and checks slices on their flavour only.",
    severity=Severity.HIGH,
    on=CLUSTER_QUEUE,
    fix="Use cohortName and admissionChecksStrategy with onFlavors.",
    url=links.KUEUE,
    guards=[
        Guard("spec.admissionChecks", ["slices"]),
        Guard("spec.cohort", "all"),
        Guard(("spec", "admissionChecksStrategy", "admissionChecks", 0, "onFlavors"), DROP),
    ],
)
def queue_fields(queue: Resource) -> Iterator[str]:
    for old, new in (("cohort", "cohortName"), ("admissionChecks", "admissionChecksStrategy")):
        if "/v1beta2:" in queue.type and queue.has(f"spec.{old}"):
            yield f"spec.{old} is dropped by v1beta2 without a word: use spec.{new}"
    for check in queue.each("spec.admissionChecksStrategy.admissionChecks"):
        if not check.texts("onFlavors"):
            yield (
                f"{check.at('onFlavors')} is empty: jobs without TPUs would wait for ever; name "
                "the flavours"
            )


@rule(
    "QUE-03",
    "The topology reaches down to hosts and has a level for every slice shape in use.",
    severity=Severity.HIGH,
    on=KUEUE_TOPOLOGY,
    whole_stack=True,
    fix="End the levels with kubernetes.io/hostname and add the partition id of each shape.",
    url=links.DYNAMIC_SLICING,
    guards=[
        Guard("spec.levels", lambda levels: levels[:-1]),
    ],
)  # fmt: skip
def topology_levels(topology: Resource, stack: Stack) -> Iterator[str]:
    levels = [level.text("nodeLabel") for level in topology.each("spec.levels")]
    if levels[-1:] != ["kubernetes.io/hostname"]:
        yield "spec.levels must end with kubernetes.io/hostname: the slice controller reads hosts"
    for shape in sorted(slice_shapes(stack)):
        part = shape if facts.chips_of(shape) < 64 else "4x4x4"
        if part == "2x2x1":
            continue  # a partition of one host is the host itself
        wanted = f"cloud.google.com/gke-tpu-partition-{part}-id"
        if wanted not in levels:
            yield f"spec.levels lacks {wanted}: slices of {shape} are never formed; add it"


@rule(
    "QUE-04",
    "Serving is never preempted by a job.",
    severity=Severity.HIGH,
    on=LWS.where("queued LeaderWorkerSets", lambda w: bool(label(w, QUEUE_LABEL))),
    whole_stack=True,
    fix="Give serving a priority class at least as high as that of every job in its queue.",
    url=links.KUEUE_PRIORITY,
    guards=[
        Guard(("metadata", "labels", PRIORITY_LABEL), DROP,
              when=lambda w: bool(label(w, PRIORITY_LABEL))),
    ],
)  # fmt: skip
def serving_comes_first(lws: Resource, stack: Stack) -> Iterator[str]:
    own = _priority(lws, stack)
    for job in stack.of(JOBSET):
        same = label(job, QUEUE_LABEL) == label(lws, QUEUE_LABEL) and job.text(
            "metadata.namespace"
        ) == lws.text("metadata.namespace")
        if same and _priority(job, stack) > own:
            yield (
                f"JobSet {_name(job)} has a higher priority in the same queue: the pair preempts "
                f"for ever; set {PRIORITY_LABEL} of serving at least as high"
            )
    classes = [c.number("value") or 0 for c in stack.of(PRIORITY_CLASS)]
    if classes and own < max(classes):
        yield (
            f"{PRIORITY_LABEL} is not the highest class of the stack: a job may preempt serving, "
            "which never ends; use the highest"
        )


def _priority(workload: Resource, stack: Stack) -> int:
    name = label(workload, PRIORITY_LABEL)
    found = _named(PRIORITY_CLASS, name, stack) if name else None
    try:
        return (found.number("value") or 0) if found else 0
    except UndecidedError:
        return 0


@rule(
    "QUE-05",
    "A slice flavour names its accelerator and its topology.",
    severity=Severity.MEDIUM,
    on=FLAVOR.where("TPU flavours", lambda f: ACCELERATOR_LABEL in f.mapping("spec.nodeLabels")),
    whole_stack=True,
    fix="Set spec.topologyName to the Topology of the stack.",
    url=links.KUEUE,
    guards=[Guard("spec.topologyName", DROP)],
)
def flavor_has_topology(flavor: Resource, stack: Stack) -> Iterator[str]:
    name = flavor.text("spec.topologyName")
    if not stack.of(KUEUE_TOPOLOGY):
        return
    if not name or _named(KUEUE_TOPOLOGY, name, stack) is None:
        yield f"spec.topologyName {name or 'is missing'}: name the Topology of the stack"


RULES = [
    real_quota,
    queue_leads_somewhere,
    queue_fields,
    topology_levels,
    serving_comes_first,
    flavor_has_topology,
]
