"""Rules on a pod template: the shape it asks for, where it may run, what it takes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from catalog.accelerators import TPU7X, Slice
from catalog.allocatable import NODE_SIZES, allocatable
from catalog.partitions import (
    ACCELERATOR_LABEL,
    CONTROLLER,
    DYNAMIC,
    FORMED_LABEL,
    SHAPE_ANNOTATION,
    TAINT_VALUE,
    TPU,
    UnknownShapeError,
    partition,
    slice_of,
)
from catalog.quantities import amount
from catalog.workloads.base import HOST, JOB, JOBSET, LEAST_MEMORY, QUANTITY, Flaw, Queue


@dataclass(frozen=True)
class Template:
    """A pod template and where it stands."""

    path: str
    value: Mapping[str, Any]

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.value.get("spec") or {}

    @property
    def annotations(self) -> Mapping[str, Any]:
        return (self.value.get("metadata") or {}).get("annotations") or {}

    @property
    def selector(self) -> Mapping[str, Any]:
        return self.spec.get("nodeSelector") or {}

    @property
    def slice(self) -> Slice | None:
        """The slice asked for; None where it is not said or cannot be."""
        try:
            return slice_of(str(self.annotations[SHAPE_ANNOTATION]))
        except (KeyError, ValueError):
            return None

    @property
    def chips(self) -> Fraction:
        """Chips of one pod: limits of its regular containers, as the controller counts them."""
        return sum(
            (
                amount(str(((each.get("resources") or {}).get("limits") or {}).get(TPU, 0)))
                for each in self.spec.get("containers") or ()
            ),
            Fraction(0),
        )

    def requests(self, resource: str) -> list[str]:
        """Requests of the regular containers as they are written; a limit alone is one, too."""
        asked = [
            {**(given.get("limits") or {}), **(given.get("requests") or {})}
            for each in self.spec.get("containers") or ()
            if (given := each.get("resources") or {})
        ]
        return [str(each[resource]) for each in asked if resource in each]


def templates(manifest: Mapping[str, Any]) -> list[Template]:
    spec = manifest.get("spec") or {}
    if manifest["kind"] == JOB:
        return [Template("spec.template", spec.get("template") or {})]
    if manifest["kind"] == JOBSET:
        return [
            Template(
                f"spec.replicatedJobs[{index}].template.spec.template",
                ((each.get("template") or {}).get("spec") or {}).get("template") or {},
            )
            for index, each in enumerate(spec.get("replicatedJobs") or ())
        ]
    group = spec.get("leaderWorkerTemplate") or {}
    return [
        Template(f"spec.leaderWorkerTemplate.{key}", group[key])
        for key in ("leaderTemplate", "workerTemplate")
        if group.get(key)
    ]


def shape_flaws(template: Template, queue: Queue) -> Iterator[Flaw]:
    path = f"{template.path}.metadata.annotations[{SHAPE_ANNOTATION}]"
    shape = template.annotations.get(SHAPE_ANNOTATION)
    if shape is None:
        yield Flaw(
            path=path,
            value=None,
            rule="the shape is read from this annotation alone",
            fix=f"set it to one of {', '.join(queue.shapes)}",
        )
        return
    try:
        wanted = slice_of(str(shape))
    except (UnknownShapeError, ValueError) as error:
        yield Flaw(
            path=path,
            value=shape,
            rule=str(error),
            fix=f"use one of {', '.join(queue.shapes)}",
            source=DYNAMIC,
        )
        return
    if shape not in queue.shapes:
        yield Flaw(
            path=path,
            value=shape,
            rule="the topology has no level for it: the check stays pending without a message",
            fix=f"use one of {', '.join(queue.shapes)}, or add it to tpuserve:queueing.shapes",
        )
    elif not queue.room(wanted):
        yield Flaw(
            path=path,
            value=shape,
            rule=f"takes {partition(wanted).count} cubes of one block, the largest has "
            f"{max(queue.blocks, default=0)}",
            fix="use a smaller shape, or more cubes",
            source=DYNAMIC,
        )


def placement_flaws(template: Template) -> Iterator[Flaw]:
    path = f"{template.path}.spec"
    if FORMED_LABEL in template.selector:
        yield Flaw(
            path=f"{path}.nodeSelector[{FORMED_LABEL}]",
            value=template.selector[FORMED_LABEL],
            rule="nodes carry this label only once the slice is formed, and the admission check "
            "adds it then: set by hand the workload is never admitted",
            fix=f"remove it; the annotation {SHAPE_ANNOTATION} asks for the shape",
        )
    for value in _required(template, FORMED_LABEL):
        yield Flaw(
            path=f"{path}.affinity[{FORMED_LABEL}]",
            value=value,
            rule="nodes carry this label only once the slice is formed: required by hand the "
            "workload is never admitted",
            fix=f"remove it; the annotation {SHAPE_ANNOTATION} asks for the shape",
        )
    if _accelerator(template) != TPU7X.gke_label:
        yield Flaw(
            path=f"{path}.nodeSelector[{ACCELERATOR_LABEL}]",
            value=_accelerator(template),
            rule="the slice controller passes over pods that do not select exactly this",
            fix=f"set it to {TPU7X.gke_label}",
            source=CONTROLLER,
        )
    if not any(_tolerates(each) for each in template.spec.get("tolerations") or ()):
        yield Flaw(
            path=f"{path}.tolerations",
            value=None,
            rule=f"TPU nodes carry the taint {TPU}={TAINT_VALUE}:NoSchedule, and Kueue looks at "
            "the pod's own tolerations",
            fix=f"add {{key: {TPU}, operator: Exists, effect: NoSchedule}}",
        )
    if template.chips != HOST.chips:
        yield Flaw(
            path=f"{path}.containers[*].resources.limits[{TPU}]",
            value=str(template.chips),
            rule=f"a pod has a host of a slice to itself: {HOST.chips} chips",
            fix=f"set the limit of one container to {HOST.chips}",
            source=CONTROLLER,
        )
    room = allocatable(cpus=HOST.vcpus or 0, memory_gib=HOST.memory_gib or 0)
    for resource, whole, most, least in (
        ("cpu", f"{HOST.vcpus}", f"{room.cpus}", "0"),
        ("memory", f"{HOST.memory_gib}Gi", f"{room.memory_mib}Mi", LEAST_MEMORY),
    ):
        yield from _request(template, resource, whole=whole, most=most, least=least)


def _request(
    template: Template, resource: str, *, whole: str, most: str, least: str
) -> Iterator[Flaw]:
    written = template.requests(resource)
    rule, fix, source = "", "", NODE_SIZES
    try:
        asked = sum(map(amount, written), Fraction(0))
    except ValueError as error:
        rule, fix, source = str(error), "write it as 16, 500m or 64Gi", QUANTITY
    else:
        if asked > amount(most):
            rule = f"a host has {whole}, of which GKE leaves {most} to pods"
            fix = "ask for less: nobody else uses the host"
        elif written and asked < amount(least):
            rule = f"is less than {least}: a number without a unit counts bytes"
            fix, source = "write it as 128Gi, say", QUANTITY
    if rule:
        yield Flaw(
            path=f"{template.path}.spec.containers[*].resources.requests[{resource}]",
            value=" + ".join(written),
            rule=rule,
            fix=fix,
            source=source,
        )


def _accelerator(template: Template) -> str | None:
    if ACCELERATOR_LABEL in template.selector:
        return str(template.selector[ACCELERATOR_LABEL])
    found = _required(template, ACCELERATOR_LABEL)
    return found[0] if len(found) == 1 else None


def _required(template: Template, label: str) -> list[str]:
    """Values of a label that the pod's node affinity requires."""
    affinity = (template.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return [
        str(value)
        for term in required.get("nodeSelectorTerms") or ()
        for each in term.get("matchExpressions") or ()
        if each["key"] == label and each["operator"] == "In"
        for value in each["values"]
    ]


def _tolerates(toleration: Mapping[str, Any]) -> bool:
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    # Without an effect it tolerates all, without a key every taint.
    if toleration.get("effect") not in (None, "", "NoSchedule") or key not in (None, "", TPU):
        return False
    return operator == "Exists" or toleration.get("value") == TAINT_VALUE
