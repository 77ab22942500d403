"""What a workload must look like to be given slices, checked on the object itself.

The Kueue slice controller passes over what it does not understand without a word, and some of what
it accepts never starts or never frees its chips, so every rule is checked before anything is sent.
Sources: the controller (AI-Hypercomputer/xpk slice-main 250d4b3), run on Kueue 0.17.0, JobSet
0.11.1 and LWS 0.8.0 with simulated nodes on 2026-11-30; Google Cloud docs 'Schedule dynamic slices
with Kueue and TAS'.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any, Literal

from catalog.accelerators import CUBE, SUB_CUBE, TPU7X, Slice
from catalog.partitions import (
    ACCELERATOR_LABEL,
    CONTROLLER,
    DYNAMIC,
    FORMED_LABEL,
    SHAPE_ANNOTATION,
    SLICE_NAME_LIMIT,
    TAINT_VALUE,
    TPU,
    UnknownShapeError,
    at_most,
    partition,
    slice_of,
)
from catalog.quantities import amount
from catalog.releases import RELEASE_SETS, ReleaseSet
from catalog.source import READ, Source

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"

JOB, JOBSET, LWS = "Job", "JobSet", "LeaderWorkerSet"

MEASURED = Source(
    "slice controller 250d4b3 on Kueue 0.17.0, JobSet 0.11.1, LWS 0.8.0, simulated nodes",
    date(2026, 11, 30),
)
KUEUE = Source("Kueue docs, 'Topology Aware Scheduling' and 'Run a JobSet'", READ)
LABELS = Source("Kubernetes docs, 'Labels and Selectors': 63 characters", READ)

LABEL_LIMIT = 63
POD_SUFFIX = len("-abcde")
HOST = TPU7X.machine("tpu7x-standard-4t")
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """What the queue of a stack offers."""

    name: str
    """Name of the LocalQueue in every namespace of `namespaces`."""
    namespaces: Sequence[str]
    shapes: Sequence[str]
    blocks: Sequence[int]
    """Cubes by block: a super-slice lies in one block."""
    priorities: Mapping[str, int]
    serving_priority: str
    releases: ReleaseSet = RELEASE_SETS[0]

    def room(self, of: Slice) -> int:
        """Slices of this shape that fit at once."""
        return sum(at_most(of, cubes) for cubes in self.blocks)


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """A field of a workload, its value, the rule it breaks, and what to do."""

    path: str
    value: object
    rule: str
    fix: str
    source: Source = field(default=MEASURED)
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value}"
        return f"{self.path}{value}: {self.rule}. {self.fix} ({self.source})"


@dataclass(frozen=True)
class _Template:
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
    def chips(self) -> int:
        """Chips of one pod: limits of its regular containers, as the controller counts them."""
        return sum(
            int(((each.get("resources") or {}).get("limits") or {}).get(TPU, 0))
            for each in self.spec.get("containers") or ()
        )

    def words(self, resource: str) -> str:
        """Requests of the regular containers as they are written."""
        return " + ".join(self._requests(resource))

    def requested(self, resource: str) -> Fraction:
        return sum(map(amount, self._requests(resource)), Fraction(0))

    def _requests(self, resource: str) -> list[str]:
        """A limit alone is also the request."""
        asked = [
            {**(given.get("limits") or {}), **(given.get("requests") or {})}
            for each in self.spec.get("containers") or ()
            if (given := each.get("resources") or {})
        ]
        return [str(each[resource]) for each in asked if resource in each]


def flaws(manifest: Mapping[str, Any], queue: Queue) -> list[Flaw]:
    """All that is wrong with a Job, JobSet or LeaderWorkerSet that asks `queue` for slices."""
    kind = manifest.get("kind")
    if kind not in (JOB, JOBSET, LWS):
        return [
            Flaw(
                path="kind",
                value=kind,
                rule="the slice controller reads Jobs, JobSets and LeaderWorkerSets only",
                fix="Use a JobSet for batch work, a LeaderWorkerSet for servers.",
            )
        ]
    found = [*_metadata(manifest, queue), *_priority(manifest, queue)]
    for template in _templates(manifest):
        found += [*_shape(template, queue), *_placement(template)]
    found += {JOB: _job, JOBSET: _jobset, LWS: _lws}[str(kind)](manifest, queue)
    return found


def _templates(manifest: Mapping[str, Any]) -> list[_Template]:
    spec = manifest.get("spec") or {}
    if manifest["kind"] == JOB:
        return [_Template("spec.template", spec.get("template") or {})]
    if manifest["kind"] == JOBSET:
        return [
            _Template(
                f"spec.replicatedJobs[{index}].template.spec.template",
                ((each.get("template") or {}).get("spec") or {}).get("template") or {},
            )
            for index, each in enumerate(spec.get("replicatedJobs") or ())
        ]
    group = spec.get("leaderWorkerTemplate") or {}
    return [
        _Template(f"spec.leaderWorkerTemplate.{key}", group[key])
        for key in ("leaderTemplate", "workerTemplate")
        if group.get(key)
    ]


def _metadata(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    metadata = manifest.get("metadata") or {}
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    if not namespace or not DNS_LABEL.fullmatch(namespace):
        yield Flaw(
            path="metadata.namespace",
            value=namespace or None,
            rule="names of Slices begin with the namespace and must begin with a letter: no Slice "
            "is made, and the workload keeps its quota for ever",
            fix=f"Use {_or(queue.namespaces)}.",
        )
    elif namespace not in queue.namespaces:
        yield Flaw(
            path="metadata.namespace",
            value=namespace,
            rule=f"the namespace has no queue {queue.name}",
            fix=f"Use {_or(queue.namespaces)}, or add it to tpuserve:queueing.",
            source=KUEUE,
        )
    if not DNS_LABEL.fullmatch(name):
        yield Flaw(
            path="metadata.name",
            value=name or None,
            rule="names of Slices and Services are made of it: a letter first, then letters, "
            "digits and hyphens, no dots",
            fix="Choose another name.",
        )
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if QUEUE_LABEL in annotations:
        yield Flaw(
            path=f"metadata.annotations[{QUEUE_LABEL}]",
            value=annotations[QUEUE_LABEL],
            rule="Kueue reads the queue's name from a label",
            fix="Move it to metadata.labels.",
            source=Source("kubernetes-sigs/kueue issue 12417", READ),
        )
    if labels.get(QUEUE_LABEL) != queue.name:
        yield Flaw(
            path=f"metadata.labels[{QUEUE_LABEL}]",
            value=labels.get(QUEUE_LABEL),
            rule="without the name of a queue the workload starts at once, on no slice",
            fix=f"Set it to {queue.name}.",
            source=KUEUE,
        )


def _priority(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    label = ((manifest.get("metadata") or {}).get("labels") or {}).get(PRIORITY_LABEL)
    path = f"metadata.labels[{PRIORITY_LABEL}]"
    serving = queue.priorities[queue.serving_priority]
    if label is None or label not in queue.priorities:
        yield Flaw(
            path=path,
            value=label,
            rule="names a priority class of the stack; without one the workload has priority 0",
            fix=f"Use one of {', '.join(queue.priorities)}.",
            source=KUEUE,
        )
    elif manifest["kind"] == LWS and queue.priorities[label] < max(queue.priorities.values()):
        yield Flaw(
            path=path,
            value=label,
            rule="an evicted LeaderWorkerSet never frees its Slice, so nothing may preempt it",
            fix=f"Use {queue.serving_priority}, the highest class.",
        )
    elif manifest["kind"] != LWS and queue.priorities[label] > serving:
        yield Flaw(
            path=path,
            value=label,
            rule=f"its {queue.priorities[label]} is above serving's {serving}: a job that preempts "
            "a server waits for chips that are never freed",
            fix=f"Use {queue.serving_priority} or lower.",
        )


def _shape(template: _Template, queue: Queue) -> Iterator[Flaw]:
    path = f"{template.path}.metadata.annotations[{SHAPE_ANNOTATION}]"
    shape = template.annotations.get(SHAPE_ANNOTATION)
    if shape is None:
        yield Flaw(
            path=path,
            value=None,
            rule="the shape is read from this annotation alone",
            fix=f"Set it to one of {', '.join(queue.shapes)}.",
        )
        return
    try:
        wanted = slice_of(str(shape))
    except (UnknownShapeError, ValueError) as error:
        yield Flaw(
            path=path,
            value=shape,
            rule=str(error),
            fix=f"Use one of {', '.join(queue.shapes)}.",
            source=DYNAMIC,
        )
        return
    if shape not in queue.shapes:
        yield Flaw(
            path=path,
            value=shape,
            rule="the topology has no level for it: the check stays pending without a message",
            fix=f"Use one of {', '.join(queue.shapes)}, or add it to tpuserve:queueing.shapes.",
        )
    elif not queue.room(wanted):
        yield Flaw(
            path=path,
            value=shape,
            rule=f"takes {partition(wanted).count} cubes of one block, the largest has "
            f"{max(queue.blocks, default=0)}",
            fix="Use a smaller shape, or more cubes.",
            source=DYNAMIC,
        )


def _placement(template: _Template) -> Iterator[Flaw]:
    path = f"{template.path}.spec"
    if FORMED_LABEL in template.selector:
        yield Flaw(
            path=f"{path}.nodeSelector[{FORMED_LABEL}]",
            value=template.selector[FORMED_LABEL],
            rule="nodes carry this label only once the slice is formed, and the admission check "
            "adds it then: set by hand the workload is never admitted",
            fix=f"Remove it; the annotation {SHAPE_ANNOTATION} asks for the shape.",
        )
    if _accelerator(template) != TPU7X.gke_label:
        yield Flaw(
            path=f"{path}.nodeSelector[{ACCELERATOR_LABEL}]",
            value=_accelerator(template),
            rule="the slice controller passes over pods that do not select exactly this",
            fix=f"Set it to {TPU7X.gke_label}.",
            source=CONTROLLER,
        )
    if not any(_tolerates(each) for each in template.spec.get("tolerations") or ()):
        yield Flaw(
            path=f"{path}.tolerations",
            value=None,
            rule=f"TPU nodes carry the taint {TPU}={TAINT_VALUE}:NoSchedule, and Kueue looks at "
            "the pod's own tolerations",
            fix=f"Add {{key: {TPU}, operator: Exists, effect: NoSchedule}}.",
        )
    if template.chips != HOST.chips:
        yield Flaw(
            path=f"{path}.containers[*].resources.limits[{TPU}]",
            value=template.chips,
            rule=f"a pod has a host of a slice to itself: {HOST.chips} chips",
            fix=f"Set the limit of one container to {HOST.chips}.",
            source=CONTROLLER,
        )
    for resource, whole in (("cpu", f"{HOST.vcpus}"), ("memory", f"{HOST.memory_gib}Gi")):
        if template.requested(resource) >= amount(whole):
            yield Flaw(
                path=f"{path}.containers[*].resources.requests[{resource}]",
                value=template.words(resource),
                rule=f"a host has {whole}, and part of it is the node's own",
                fix="Ask for less: nobody else uses the host.",
                source=HOST.source,
            )


def _accelerator(template: _Template) -> str | None:
    if ACCELERATOR_LABEL in template.selector:
        return str(template.selector[ACCELERATOR_LABEL])
    affinity = (template.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchExpressions") or ():
            if each["key"] == ACCELERATOR_LABEL and each["operator"] == "In":
                return str(each["values"][0]) if len(each["values"]) == 1 else None
    return None


def _tolerates(toleration: Mapping[str, Any]) -> bool:
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    effect = toleration.get("effect", "NoSchedule")
    if effect != "NoSchedule" or key not in (None, TPU):
        return False
    return operator == "Exists" or toleration.get("value") == TAINT_VALUE


def _job(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    del queue
    (template,) = _templates(manifest)
    yield from _pods("spec", manifest.get("spec") or {}, template)


def _jobset(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    spec, name = manifest.get("spec") or {}, str((manifest.get("metadata") or {}).get("name"))
    jobs = spec.get("replicatedJobs") or []
    if not jobs:
        yield Flaw(
            path="spec.replicatedJobs",
            value=None,
            rule="a JobSet has at least one job",
            fix="Add one.",
            source=KUEUE,
        )
    for index, (job, template) in enumerate(zip(jobs, _templates(manifest), strict=True)):
        path = f"spec.replicatedJobs[{index}]"
        inner = (job.get("template") or {}).get("spec") or {}
        yield from _pods(f"{path}.template.spec", inner, template)
        replicas, pods = int(job.get("replicas", 1)), int(inner.get("parallelism") or 1)
        longest = f"{name}-{job.get('name')}-{replicas - 1}-{pods - 1}"
        if len(longest) + POD_SUFFIX > LABEL_LIMIT:
            over = len(longest) + POD_SUFFIX - LABEL_LIMIT
            yield Flaw(
                path="metadata.name",
                value=name,
                rule=f"its pods would be named {longest}-xxxxx, {over} characters too long for "
                "their host name",
                fix=f"Shorten the name, or that of job {job.get('name')}, by {over}.",
                source=LABELS,
            )
        if template.slice and replicas > (room := queue.room(template.slice)) > 0:
            yield Flaw(
                path=f"{path}.replicas",
                value=replicas,
                rule=f"at most {room} slices of {template.slice.shape} lie on {sum(queue.blocks)} "
                "cubes, and a JobSet is admitted whole",
                fix=f"Set {room} or fewer.",
                source=DYNAMIC,
            )


def _pods(path: str, spec: Mapping[str, Any], template: _Template) -> Iterator[Flaw]:
    if template.spec.get("restartPolicy") not in ("Never", "OnFailure"):
        yield Flaw(
            path=f"{template.path}.spec.restartPolicy",
            value=template.spec.get("restartPolicy"),
            rule="a Job's pods restart Never or OnFailure",
            fix="Use Never: the JobSet starts all pods of a slice again.",
            source=Source("Kubernetes docs, 'Jobs'", READ),
        )
    if template.slice is None:
        return
    hosts = template.slice.hosts
    for key in ("parallelism", "completions"):
        if spec.get(key) != hosts:
            yield Flaw(
                path=f"{path}.{key}",
                value=spec.get(key),
                rule=f"a slice of {template.slice.shape} has {hosts} hosts, one pod each",
                fix=f"Set {hosts}.",
                source=CONTROLLER,
            )


def _lws(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    spec, name = manifest.get("spec") or {}, str((manifest.get("metadata") or {}).get("name"))
    group = spec.get("leaderWorkerTemplate") or {}
    size, leader = int(group.get("size", 1)), group.get("leaderTemplate")
    path = "spec.leaderWorkerTemplate"
    templates = _templates(manifest)
    wanted = templates[-1].slice if templates else None
    if wanted and wanted.topology not in (*SUB_CUBE, CUBE):
        yield Flaw(
            path=f"{templates[-1].path}.metadata.annotations[{SHAPE_ANNOTATION}]",
            value=wanted.shape,
            rule="all pods of a group must lie in one partition, the largest is a cube: it never "
            "fits",
            fix="Use 4x4x4 or smaller, or a JobSet.",
        )
    elif wanted and size != wanted.hosts:
        yield Flaw(
            path=f"{path}.size",
            value=size,
            rule=f"a slice of {wanted.shape} has {wanted.hosts} hosts; nobody else checks it, and "
            "the rest of the partition stays empty",
            fix=f"Set {wanted.hosts}.",
        )
    if size == 1 and leader:
        yield Flaw(
            path=f"{path}.leaderTemplate",
            value=None,
            rule="a group of one with a leader has no worker pods, and slices are made for those: "
            "it is never admitted",
            fix="Remove leaderTemplate.",
        )
    if leader and len(templates) == 2:
        yield from _alike(*templates)
    if int(spec.get("replicas", 1)) > 1:
        yield Flaw(
            path="spec.replicas",
            value=spec.get("replicas"),
            rule="the slices of a scaled-down or evicted group stay taken while any group of the "
            "object runs",
            fix="Use one LeaderWorkerSet of one replica a group, and add and remove objects.",
            severity="warning",
        )
    limit = queue.releases.longest_lws_name
    if len(name) > limit:
        yield Flaw(
            path="metadata.name",
            value=name,
            rule=f"Kueue {queue.releases.kueue} labels pods with a name made of it: at most "
            f"{limit} characters, this has {len(name)}",
            fix=f"Shorten it by {len(name) - limit}.",
            source=Source("kubernetes-sigs/kueue issue 11409", READ),
        )


def _alike(leader: _Template, worker: _Template) -> Iterator[Flaw]:
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
                fix="Make the two alike.",
                source=Source("kubernetes-sigs/kueue issue 15373", READ),
            )


def _or(words: Sequence[str]) -> str:
    return " or ".join(words)


def slice_name_is_cut(namespace: str, workload: str) -> bool:
    """Whether Slices of a JobSet lose the end of their name for a hash of five digits."""
    return len(f"{namespace}-jobset-{workload}-abcde-slice-0") > SLICE_NAME_LIMIT
