"""What a workload must look like to be given slices, checked on the object itself.

The Kueue slice controller passes over what it does not understand without a word, and some of what
it accepts never starts or never frees its chips, so every rule is checked before anything is sent.
Sources: the controller (AI-Hypercomputer/xpk slice-main 250d4b3), run on Kueue 0.17.0, JobSet
0.11.1 and LWS 0.8.0 with simulated nodes on 2026-11-30; Google Cloud docs 'Schedule dynamic slices
with Kueue and TAS'.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.partitions import SLICE_NAME_LIMIT
from catalog.source import READ, Source
from catalog.workloads.base import (
    DNS_LABEL,
    JOB,
    JOBSET,
    KUEUE,
    LABEL_LIMIT,
    LABELS,
    LWS,
    MEASURED,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    Flaw,
    Queue,
    any_of,
)
from catalog.workloads.groups import lws_flaws
from catalog.workloads.jobs import job_flaws, jobset_flaws
from catalog.workloads.template import placement_flaws, shape_flaws, templates

__all__ = [
    "JOBSET",
    "LWS",
    "MEASURED",
    "PRIORITY_LABEL",
    "QUEUE_LABEL",
    "Flaw",
    "Queue",
    "flaws",
    "slice_name_is_cut",
]


def flaws(manifest: Mapping[str, Any], queue: Queue) -> list[Flaw]:
    """All that is wrong with a Job, JobSet or LeaderWorkerSet that asks `queue` for slices."""
    try:
        return _flaws(manifest, queue)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [
            Flaw(
                path="spec",
                value=None,
                rule=f"is not of the form its kind has: {error}",
                fix="compare it with the manifest in docs/run-a-job.md",
                source=KUEUE,
            )
        ]


def _flaws(manifest: Mapping[str, Any], queue: Queue) -> list[Flaw]:
    kind = manifest.get("kind")
    if kind not in (JOB, JOBSET, LWS):
        return [
            Flaw(
                path="kind",
                value=kind,
                rule="the slice controller reads Jobs, JobSets and LeaderWorkerSets only",
                fix="use a JobSet for batch work, a LeaderWorkerSet for servers",
            )
        ]
    found = [*_metadata(manifest, queue), *_priority(manifest, queue)]
    for template in templates(manifest):
        found += [*shape_flaws(template, queue), *placement_flaws(template)]
    found += {JOB: job_flaws, JOBSET: jobset_flaws, LWS: lws_flaws}[str(kind)](manifest, queue)
    return found


def _metadata(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    metadata = manifest.get("metadata") or {}
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    if not namespace or not DNS_LABEL.fullmatch(namespace):
        yield Flaw(
            path="metadata.namespace",
            value=namespace or None,
            rule="names of Slices begin with the namespace and must begin with a letter: no Slice "
            "is made, and the workload keeps its quota for ever",
            fix=f"use {any_of(queue.namespaces)}",
        )
    elif namespace not in queue.namespaces:
        yield Flaw(
            path="metadata.namespace",
            value=namespace,
            rule=f"the namespace has no queue {queue.name}",
            fix=f"use {any_of(queue.namespaces)}, or add it to tpuserve:queueing",
            source=KUEUE,
        )
    if not DNS_LABEL.fullmatch(name):
        yield Flaw(
            path="metadata.name",
            value=name or None,
            rule="names of Slices and Services are made of it: a letter first, then letters, "
            "digits and hyphens, no dots",
            fix="choose another name",
        )
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if QUEUE_LABEL in annotations:
        yield Flaw(
            path=f"metadata.annotations[{QUEUE_LABEL}]",
            value=annotations[QUEUE_LABEL],
            rule="Kueue reads the queue's name from a label",
            fix="move it to metadata.labels",
            source=Source("kubernetes-sigs/kueue issue 12417", READ),
        )
    if labels.get(QUEUE_LABEL) != queue.name:
        yield Flaw(
            path=f"metadata.labels[{QUEUE_LABEL}]",
            value=labels.get(QUEUE_LABEL),
            rule="without the name of a queue the workload starts at once, on no slice",
            fix=f"set it to {queue.name}",
            source=KUEUE,
        )
    for label in (QUEUE_LABEL, PRIORITY_LABEL):
        value = str(labels.get(label, ""))
        if len(value) > LABEL_LIMIT:
            yield Flaw(
                path=f"metadata.labels[{label}]",
                value=value,
                rule=f"a label has at most {LABEL_LIMIT} characters, this {len(value)}",
                fix="choose a shorter name",
                source=LABELS,
            )


def _priority(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    label = ((manifest.get("metadata") or {}).get("labels") or {}).get(PRIORITY_LABEL)
    path = f"metadata.labels[{PRIORITY_LABEL}]"
    # Without that class nothing can be said about it.
    serving = queue.priorities.get(queue.serving_priority, math.inf)
    if label is None or label not in queue.priorities:
        yield Flaw(
            path=path,
            value=label,
            rule="names a priority class of the stack; without one the workload has priority 0",
            fix=f"use one of {', '.join(queue.priorities)}",
            source=KUEUE,
        )
    elif manifest["kind"] == LWS and queue.priorities[label] < max(queue.priorities.values()):
        yield Flaw(
            path=path,
            value=label,
            rule="an evicted LeaderWorkerSet never frees its Slice, so nothing may preempt it",
            fix=f"use {max(queue.priorities, key=lambda key: queue.priorities[key])}, the highest "
            "class",
        )
    elif manifest["kind"] != LWS and queue.priorities[label] > serving:
        yield Flaw(
            path=path,
            value=label,
            rule=f"its {queue.priorities[label]} is above serving's {serving}: a job that preempts "
            "a server waits for chips that are never freed",
            fix=f"use {queue.serving_priority} or lower",
        )


def slice_name_is_cut(namespace: str, workload: str) -> bool:
    """Whether Slices of a JobSet lose the end of their name for a hash of five digits."""
    return len(f"{namespace}-jobset-{workload}-abcde-slice-0") > SLICE_NAME_LIMIT
