"""The JobSet of a job on slices: everything in it follows from the shape."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from catalog.accelerators import TPU7X, Slice
from catalog.partitions import (
    ACCELERATOR_LABEL,
    BLOCK_LABEL,
    SHAPE_ANNOTATION,
    TPU,
    partition,
    slice_of,
)
from catalog.quantities import amount, canonical
from catalog.releases import JOBSET as CHART
from catalog.releases import RELEASE_SETS, definition
from catalog.source import READ, Source
from catalog.workloads import JOBSET, PRIORITY_LABEL, QUEUE_LABEL, Flaw, Queue, flaws

PODS = Source("Kubernetes API reference, 'Pod'", READ)

API_VERSION = "jobset.x-k8s.io/v1alpha2"

WORKERS = "slice"
"""Name of the JobSet's only job: a part of every pod's name, so it is short."""

SUB, SUPER = "sub-slices", "super-slice"
"""Names of the two jobs of a smoke test."""

SHARED_MEMORY = "shared-memory"
"""Processes that load data hand it over in /dev/shm, which is 64 MiB unless said otherwise."""
MIB = 1 << 20

TOLERATION = {"key": TPU, "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a user says of a job."""

    name: str
    namespace: str
    queue: str
    image: str
    command: Sequence[str]
    shape: str
    count: int
    priority: str
    cpu: str
    memory: str
    restarts: int
    environment: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the pods' spec beside those made here, in Kubernetes' words; lists are joined."""
    container_extra: Mapping[str, Any] = field(default_factory=dict)
    """The same for the container."""

    @property
    def slice(self) -> Slice:
        return slice_of(self.shape)


def jobset(job: Job) -> dict[str, Any]:
    """The object, as it is sent."""
    hosts = job.slice.hosts
    return {
        "apiVersion": API_VERSION,
        "kind": JOBSET,
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": {QUEUE_LABEL: job.queue, PRIORITY_LABEL: job.priority},
        },
        "spec": {
            # A pod that failed leaves the others waiting for it: all start again.
            "failurePolicy": {"maxRestarts": job.restarts, "restartStrategy": "Recreate"},
            "replicatedJobs": [
                {
                    "name": WORKERS,
                    "replicas": job.count,
                    "template": {
                        "spec": {
                            "completionMode": "Indexed",
                            "parallelism": hosts,
                            "completions": hosts,
                            "backoffLimit": 0,
                            "template": {
                                "metadata": {"annotations": annotations(job.slice)},
                                "spec": _with(_pod(job), job.extra, "pod"),
                            },
                        }
                    },
                }
            ],
        },
    }


def annotations(of: Slice) -> dict[str, str]:
    """What the slice controller's webhook writes, said beforehand so that a plan shows it."""
    part = partition(of)
    kueue = "kueue.x-k8s.io"
    return {
        SHAPE_ANNOTATION: of.shape,
        f"{kueue}/podset-required-topology": BLOCK_LABEL,
        f"{kueue}/podset-slice-required-topology": part.id_label,
        f"{kueue}/podset-slice-size": str(part.hosts),
    }


def node_selector(of: Slice) -> dict[str, str]:
    """Hosts of whole partitions; never the shape's own label, which formed slices alone carry."""
    return {ACCELERATOR_LABEL: TPU7X.gke_label, partition(of).state_label: "HEALTHY"}


Part = Literal["pod", "container"]


DEFAULTS: Mapping[Part, frozenset[str]] = {
    "pod": frozenset(
        {"terminationGracePeriodSeconds", "automountServiceAccountToken", "enableServiceLinks"}
    ),
    "container": frozenset({"securityContext"}),
}
"""What an extra field may say otherwise."""


def mistakes(job: Job, queue: Queue) -> list[Flaw]:
    """All that is wrong with a job, beginning with its extra fields."""
    return [*_extra(job), *flaws(jobset(job), queue)]


def _extra(job: Job) -> Iterator[Flaw]:
    parts: tuple[tuple[Part, str, Mapping[str, Any], Mapping[str, Any]], ...] = (
        ("pod", "extra", job.extra, _pod(job)),
        ("container", "containerExtra", job.container_extra, _container(job)),
    )
    for part, path, extra, ours in parts:
        for name, value in extra.items():
            if name not in known_fields()[part]:
                rule, fix = f"a {part} has no such field", "correct its spelling, or remove it"
            elif name in ours and name not in DEFAULTS[part] and not _joined(ours[name], value):
                rule, fix = f"the {part}'s {name} follows from what the job says", "remove it"
            else:
                continue
            yield Flaw(path=f"{path}.{name}", value=None, rule=rule, fix=fix, source=PODS)


@cache
def known_fields() -> dict[Part, frozenset[str]]:
    """Fields of a pod's spec and of a container, from JobSet's definition."""
    schema = definition(CHART.crds[0], RELEASE_SETS[0].jobset)["versions"][0]["schema"]
    at = schema["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicatedJobs"]["items"]
    for step in ("template", "spec", "template", "spec"):
        at = at["properties"][step]
    container = at["properties"]["containers"]["items"]
    return {"pod": frozenset(at["properties"]), "container": frozenset(container["properties"])}


def _with(ours: Mapping[str, Any], extra: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """Lists are joined; what follows from the job stays as it is."""
    made = dict(ours)
    for name, value in extra.items():
        if name not in ours or name in DEFAULTS[part]:
            made[name] = value
        elif _joined(ours[name], value):
            made[name] = [*ours[name], *value]
    return made


def _joined(ours: Any, theirs: Any) -> bool:
    return isinstance(ours, list) and isinstance(theirs, list)


def _pod(job: Job) -> dict[str, Any]:
    memory = canonical(job.memory)
    return {
        "restartPolicy": "Never",
        "nodeSelector": node_selector(job.slice),
        "tolerations": [TOLERATION],
        "serviceAccountName": job.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "containers": [_with(_container(job), job.container_extra, "container")],
        "volumes": [
            {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": _half(memory)}}
        ],
    }


def _container(job: Job) -> dict[str, Any]:
    chips = str(job.slice.machine.chips)
    cpu, memory = canonical(job.cpu), canonical(job.memory)
    return {
        "name": "main",
        "image": job.image,
        "command": list(job.command),
        **_environment(job),
        "resources": {
            "requests": {"cpu": cpu, "memory": memory, TPU: chips},
            "limits": {"memory": memory, TPU: chips},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": SHARED_MEMORY, "mountPath": "/dev/shm"}],  # noqa: S108
    }


def _half(memory: str) -> str:
    """What a Linux host gives /dev/shm of its memory; what lies in it counts as the container's."""
    return canonical(f"{int(amount(memory) / 2 / MIB)}Mi")


def _environment(job: Job) -> dict[str, Any]:
    # An empty list comes back as none, and shows as a change for ever.
    found = [{"name": key, "value": value} for key, value in job.environment.items()]
    return {"env": found} if found else {}
