"""The JobSet of a job on slices: everything in it follows from the shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.accelerators import TPU7X, Slice
from catalog.partitions import (
    ACCELERATOR_LABEL,
    BLOCK_LABEL,
    SHAPE_ANNOTATION,
    TPU,
    partition,
    slice_of,
)
from catalog.quantities import canonical
from catalog.workloads import JOBSET, PRIORITY_LABEL, QUEUE_LABEL

API_VERSION = "jobset.x-k8s.io/v1alpha2"

WORKERS = "slice"
"""Name of the JobSet's only job: a part of every pod's name, so it is short."""

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
                                "spec": _pod(job),
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


def _pod(job: Job) -> dict[str, Any]:
    chips = str(job.slice.machine.chips)
    cpu, memory = canonical(job.cpu), canonical(job.memory)
    return {
        "restartPolicy": "Never",
        "nodeSelector": node_selector(job.slice),
        "tolerations": [TOLERATION],
        "serviceAccountName": job.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
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
            }
        ],
    }


def _environment(job: Job) -> dict[str, Any]:
    # An empty list comes back as none, and shows as a change for ever.
    found = [{"name": key, "value": value} for key, value in job.environment.items()]
    return {"env": found} if found else {}
