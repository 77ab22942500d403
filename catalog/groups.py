"""The LeaderWorkerSet of one group of model servers on one slice."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.accelerators import Slice
from catalog.jobs import TOLERATION, node_selector
from catalog.partitions import SHAPE_ANNOTATION, TPU, partition
from catalog.workloads import LWS, PRIORITY_LABEL, QUEUE_LABEL

API_VERSION = "leaderworkerset.x-k8s.io/v1"
GROUP_NAME = "lws-super-slice-group"
"""The slice controller's word for leader and workers of one slice (xpk slice-main 250d4b3)."""
DIGITS = 6
"""Of a content's digest in a name."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """One slice's worth of servers: a leader, and a worker on each further host."""

    name: str
    namespace: str
    queue: Any
    """Name of the LocalQueue; known late in a program, and plain in a check."""
    priority: str
    slice: Slice
    labels: Mapping[str, str]
    leader_labels: Mapping[str, str]
    """In addition, on the one pod that serves HTTP."""
    leader: Mapping[str, Any]
    worker: Mapping[str, Any] | None = None
    """Pod specs without what follows from the slice; no worker on a slice of one host."""


def leader_worker_set(group: Group) -> dict[str, Any]:
    """The object, as it is sent; everything about places follows from the shape."""
    of = group.slice
    leader_labels = {**group.labels, **group.leader_labels}
    spec: dict[str, Any] = {
        "size": of.hosts,
        # A server that lost a host has lost its model.
        "restartPolicy": "RecreateGroupOnPodRestart",
    }
    if of.multi_host:
        assert group.worker is not None  # noqa: S101  a slice of several hosts has workers
        spec["leaderTemplate"] = _template(of, leader_labels, group.leader)
        spec["workerTemplate"] = _template(of, group.labels, group.worker)
    else:
        # With a leaderTemplate a group of one is never admitted.
        spec["workerTemplate"] = _template(of, leader_labels, group.leader)
    return {
        "apiVersion": API_VERSION,
        "kind": LWS,
        "metadata": {
            "name": group.name,
            "namespace": group.namespace,
            "labels": {
                QUEUE_LABEL: group.queue,
                PRIORITY_LABEL: group.priority,
                **group.labels,
            },
        },
        "spec": {
            "replicas": 1,
            # Workers come while the leader still waits for them.
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                # A surge replica that is scaled away keeps its slice as long as the object lives.
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "leaderWorkerTemplate": spec,
        },
    }


def renewed_name(name: str, content: str = "") -> str:
    """A name that changes with the content: another content is another object, and a new slice."""
    return f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:DIGITS]}"


def annotations(of: Slice) -> dict[str, str]:
    """What the slice controller's webhook writes, said beforehand so that a plan shows it."""
    kueue = "kueue.x-k8s.io"
    return {
        SHAPE_ANNOTATION: of.shape,
        # GKE's own TPU admission refuses pods that wait behind a gate.
        "cloud.google.com/skip-tpu-webhook-check": "true",
        f"{kueue}/podset-required-topology": partition(of).id_label,
        **({f"{kueue}/podset-group-name": GROUP_NAME} if of.multi_host else {}),
    }


def _template(of: Slice, labels: Mapping[str, str], pod: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"labels": dict(labels), "annotations": annotations(of)},
        "spec": {"nodeSelector": node_selector(of), "tolerations": [TOLERATION], **pod},
    }


def smallest_pod(of: Slice) -> dict[str, Any]:
    """A pod that has all a queue looks at, for checks before there is a program."""
    limits = {TPU: of.machine.chips}
    return {"containers": [{"name": "vllm", "resources": {"requests": limits, "limits": limits}}]}
