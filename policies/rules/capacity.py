"""Whether the pools have room for what is asked of them, autoscaled things at their largest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.kinds import (
    ACCELERATOR_LABEL,
    AUTOSCALING_METRIC,
    DEPLOYMENT,
    HELM,
    HPA,
    LWS,
    PDB,
    POD_MONITORING,
    SLICE_TOPOLOGY,
    STATEFUL_SET,
    TOPOLOGY_LABEL,
    TPU_DEPLOYMENT,
    TPU_POD,
    TPU_WORKLOAD,
    Pod,
    pods,
    selector_matches,
)
from rules.model import DROP, Guard, Node, Resource, Setting, Severity, Stack, rule
from rules.pools import TPU_POOL, is_cube, machine_of, max_chips, topology_of
from rules.vllm import slice_of


@rule(
    "TPU-08",
    "Every TPU pod has a pool it can run on, and the pools have room.",
    severity=Severity.MEDIUM,
    on=TPU_POD,
    whole_stack=True,
    fix="Add the pool, or list it in the rule's `externalPools`.",
    url=links.TPUS,
    settings={
        "externalPools": Setting(
            "array", [], "pools made elsewhere, as accelerator/topology, for example tpu7x/2x2x1"
        )
    },
    guards=[
        Guard(("nodeSelector", ACCELERATOR_LABEL), "tpu-v5p-slice", needs=TPU_POOL),
        Guard(("nodeSelector", TOPOLOGY_LABEL), "16x16", needs=TPU_POOL,
              when=lambda p: p.selects(ACCELERATOR_LABEL) == facts.V6E.label),
    ],
)  # fmt: skip
def pool_exists(pod: Pod, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    accelerator, topology = pod.selects(ACCELERATOR_LABEL), slice_of(pod)
    outside = {accelerator, f"{accelerator}/{topology}"} & set(settings["externalPools"])
    if accelerator is None or outside or not stack.of(TPU_POOL):
        return
    dynamic = pod.annotation(SLICE_TOPOLOGY) is not None
    room, offered = 0, False
    for pool in stack.of(TPU_POOL):
        machine = machine_of(pool)
        if machine is None or machine.generation.label != accelerator:
            continue
        if is_cube(pool, stack) if dynamic else topology_of(pool, stack) in {topology, None}:
            offered = True
            room += max_chips(pool) or 0
    what = f"{accelerator} {topology}" + (" as a dynamic slice" if dynamic else "")
    if not offered:
        yield f"no pool of the stack offers {what}: add one, or list it in externalPools"
        return
    need = _serving_chips(accelerator, stack)
    if need > room and pod.resource is _first(accelerator, stack):
        yield f"serving asks for {need} chips of {accelerator}, the pools have {room} at most"


def _first(accelerator: str, stack: Stack) -> Resource | None:
    found = (p.resource for p in stack.of(TPU_POD) if p.selects(ACCELERATOR_LABEL) == accelerator)
    return next(found, None)


def _serving_chips(accelerator: str, stack: Stack) -> int:
    """Chips of everything that serves on an accelerator, autoscaled things at their largest."""
    total = 0
    for workload in stack.of(DEPLOYMENT, STATEFUL_SET, LWS):
        group = list(pods(workload))
        if not group or group[0].selects(ACCELERATOR_LABEL) != accelerator:
            continue
        total += _replicas(workload, stack) * _group_chips(workload)
    return total


def _group_chips(workload: Resource) -> int:
    size = workload.number("spec.leaderWorkerTemplate.size") or 1
    return size * next((p.chips for p in pods(workload)), 0)


def _replicas(workload: Resource, stack: Stack) -> int:
    most = [h.number("spec.maxReplicas") or 0 for h in stack.of(HPA) if _targets(h, workload)]
    declared = workload.number("spec.replicas")
    return max([1 if declared is None else declared, *most])


def _targets(hpa: Resource, workload: Resource) -> bool:
    target = hpa.node("spec.scaleTargetRef")
    return (target.text("kind"), target.text("name")) == (
        workload.type.rpartition(":")[2],
        workload.text("metadata.name") or workload.name,
    ) and hpa.text("metadata.namespace") == workload.text("metadata.namespace")


@rule(
    "TPU-22",
    "An autoscaler of TPU pods follows requests and stays within the chips.",
    severity=Severity.MEDIUM,
    on=HPA,
    whole_stack=True,
    fix="Scale on a queue metric, keep maxReplicas within the pools and scale down slowly.",
    url=links.AUTOSCALE_METRICS,
    settings={"stabilizationSeconds": Setting("integer", 300, "least scale-down stabilisation")},
    guards=[
        Guard("spec.metrics", [{"type": "Resource", "resource": {"name": "cpu"}}]),
        Guard("spec.maxReplicas", 10_000),
        Guard("spec.behavior", DROP),
        Guard("spec.behavior.scaleDown.stabilizationWindowSeconds", 60),
        Guard("spec.scaleTargetRef.kind", "DaemonSet"),
        Guard("spec.minReplicas", 0),
        Guard(
            "spec.metrics",
            [{"type": "Pods", "pods": {"metric": {"name": "autoscaling.gke.io|nowhere|x"}}}],
        ),
    ],
)
def autoscaler(hpa: Resource, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    kind = hpa.text("spec.scaleTargetRef.kind")
    if kind not in {"Deployment", "StatefulSet", "LeaderWorkerSet"}:
        yield (
            f"spec.scaleTargetRef.kind is {kind}: scale a Deployment, StatefulSet or "
            "LeaderWorkerSet"
        )
        return
    targets = [w for w in stack.of(TPU_WORKLOAD) if _targets(hpa, w)]
    if not targets:
        return
    if not hpa.each("spec.metrics"):
        yield "spec.metrics is missing, which means CPU: use vllm:num_requests_waiting"
    for metric in hpa.each("spec.metrics"):
        if metric.text("type") in {"Resource", "ContainerResource"}:
            yield (
                f"{metric.at()} is CPU or memory, which says nothing of TPUs: use "
                "vllm:num_requests_waiting"
            )
        yield from _source_of(metric, hpa, stack)
    if hpa.number("spec.minReplicas") == 0:
        yield "spec.minReplicas is 0: the first request would wait for a node and a model; set 1"
    wait = hpa.number("spec.behavior.scaleDown.stabilizationWindowSeconds")
    least = settings["stabilizationSeconds"]
    if (300 if wait is None else wait) < least or not hpa.has("spec.behavior.scaleDown"):
        yield f"spec.behavior.scaleDown.stabilizationWindowSeconds must be {least} or more"
    for target in targets:
        most, each = hpa.number("spec.maxReplicas") or 1, _group_chips(target)
        accelerator = next(iter(pods(target))).selects(ACCELERATOR_LABEL)
        room = sum(
            max_chips(p) or 0
            for p in stack.of(TPU_POOL)
            if (m := machine_of(p)) and m.generation.label == accelerator
        )
        if room and most * each > room:
            yield (
                f"spec.maxReplicas {most} takes {most * each} chips, the pools have {room} at most"
            )


def _source_of(metric: Node, hpa: Resource, stack: Stack) -> Iterator[str]:
    """What has to be in the stack for a metric to have values."""
    name = metric.text("pods.metric.name") or ""
    path = metric.at("pods.metric.name")
    namespace = hpa.text("metadata.namespace")
    if name.startswith("autoscaling.gke.io|"):
        wanted = name.split("|")[1]
        exposed = [
            m.text("metadata.name")
            for m in stack.of(AUTOSCALING_METRIC)
            if m.text("metadata.namespace") == namespace
        ]
        if wanted not in exposed:
            yield f"{path} needs an AutoscalingMetric {wanted} in {namespace}: add it"
    if name.startswith("prometheus.googleapis.com|") and not stack.of(POD_MONITORING, HELM):
        yield f"{path} needs a PodMonitoring that collects it: add one"


@rule(
    "TPU-23",
    "A served model with several replicas has a disruption budget.",
    severity=Severity.LOW,
    on=TPU_DEPLOYMENT,
    whole_stack=True,
    fix="Add a PodDisruptionBudget with maxUnavailable 1.",
    url=links.DISRUPTIONS,
    guards=[Guard((), DROP, on=PDB), Guard("spec.selector.matchLabels", {"app": "other"}, on=PDB)],
)
def has_budget(deployment: Resource, stack: Stack) -> Iterator[str]:
    if _replicas(deployment, stack) < 2:
        return
    labels = deployment.mapping("spec.template.metadata.labels")
    namespace = deployment.text("metadata.namespace")
    for budget in stack.of(PDB):
        if budget.text("metadata.namespace") == namespace and selector_matches(
            budget.mapping("spec.selector.matchLabels"), labels
        ):
            return
    yield "several replicas and no PodDisruptionBudget: add one with maxUnavailable 1"


RULES = [
    pool_exists,
    autoscaler,
    has_budget,
]
