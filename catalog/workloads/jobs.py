"""Rules on Jobs and JobSets: a pod on each host, all slices of a job in one block."""

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.partitions import CONTROLLER
from catalog.source import READ, Source
from catalog.workloads.base import (
    HOST,
    KUEUE,
    LABEL_LIMIT,
    LABELS,
    POD_SUFFIX,
    Flaw,
    Queue,
    over_quota,
    replicas_of,
)
from catalog.workloads.template import Template, templates


def job_flaws(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    (template,) = templates(manifest)
    yield from _pods("spec", manifest.get("spec") or {}, template)
    if template.slice:
        yield from over_quota("spec", template.slice.chips, manifest, queue)


def jobset_flaws(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    spec, name = manifest.get("spec") or {}, str((manifest.get("metadata") or {}).get("name"))
    jobs = spec.get("replicatedJobs") or []
    if not jobs:
        yield Flaw(
            path="spec.replicatedJobs",
            value=None,
            rule="a JobSet has at least one job",
            fix="add one",
            source=KUEUE,
        )
    for index, (job, template) in enumerate(zip(jobs, templates(manifest), strict=True)):
        path = f"spec.replicatedJobs[{index}]"
        inner = (job.get("template") or {}).get("spec") or {}
        yield from _pods(f"{path}.template.spec", inner, template)
        replicas, pods = replicas_of(job), int(inner.get("parallelism") or 1)
        longest = f"{name}-{job.get('name')}-{replicas - 1}-{pods - 1}"
        if len(longest) + POD_SUFFIX > LABEL_LIMIT:
            over = len(longest) + POD_SUFFIX - LABEL_LIMIT
            yield Flaw(
                path="metadata.name",
                value=name,
                rule=f"its pods would be named {longest}-xxxxx, {over} characters too long for "
                "their host name",
                fix=f"shorten the name, or that of job {job.get('name')}, by {over}",
                source=LABELS,
            )
    yield from _sizes(manifest, queue)


def _sizes(manifest: Mapping[str, Any], queue: Queue) -> Iterator[Flaw]:
    """A JobSet is admitted whole: each of its jobs in one block, all of them at once."""
    jobs = (manifest.get("spec") or {}).get("replicatedJobs") or []
    asked = [
        (index, replicas_of(job), template.slice)
        for index, (job, template) in enumerate(zip(jobs, templates(manifest), strict=True))
        if template.slice and queue.room(template.slice)
    ]
    large = [each for each in asked if each[1] > queue.room_for_one_job(each[2])]
    for index, replicas, of in large:
        room = queue.room_for_one_job(of)
        yield Flaw(
            path=f"spec.replicatedJobs[{index}].replicas",
            value=replicas,
            rule=f"at most {room} slices of {of.shape} lie on the {max(queue.blocks)} cubes of one "
            "block, and all slices of a job do",
            fix=f"set {room} or fewer",
            source=KUEUE,
        )
    hosts = [replicas * of.hosts for _, replicas, of in asked]
    if large:
        return
    if not queue.fit(hosts):
        yield Flaw(
            path="spec.replicatedJobs",
            value=f"{sum(hosts)} hosts",
            rule=f"its jobs never lie at once on the {sum(queue.blocks)} cubes, each in one block, "
            "and a JobSet is admitted whole",
            fix="ask for fewer slices, or send the jobs as JobSets of their own",
            source=KUEUE,
        )
    else:
        yield from over_quota("spec.replicatedJobs", sum(hosts) * HOST.chips, manifest, queue)


def _pods(path: str, spec: Mapping[str, Any], template: Template) -> Iterator[Flaw]:
    if template.spec.get("restartPolicy") not in ("Never", "OnFailure"):
        yield Flaw(
            path=f"{template.path}.spec.restartPolicy",
            value=template.spec.get("restartPolicy"),
            rule="a Job's pods restart Never or OnFailure",
            fix="use Never: the JobSet starts all pods of a slice again",
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
                fix=f"set {hosts}",
                source=CONTROLLER,
            )
