"""Rules on queues, shapes, priorities and the jobs of a stack."""

import re
from collections.abc import Iterator

from catalog.images import IMAGE_REFERENCES, by_digest, why_loose
from catalog.jobs import Job, jobset
from catalog.partitions import DYNAMIC, at_most, partition, slice_of
from catalog.releases import OPERATOR_NAMESPACES
from catalog.source import READ, Source
from catalog.versions import GkeVersion
from catalog.workloads import MEASURED, Flaw, flaws, slice_name_is_cut
from config.cluster import Cluster
from config.problem import Problem
from config.queueing import KUEUE, QUEUE, Queueing, SlicedJob, SmokeShape, blocks, chips
from config.tpu_pools import DynamicPool, TpuPool

PATH = "tpuserve:queueing"
RESERVED = (
    "default",
    "kube-system",
    "kube-public",
    "slice-controller-system",
    *OPERATOR_NAMESPACES,
)
NAMESPACES = Source("Kubernetes docs, 'Namespaces'", READ)

FIELDS = (
    ("metadata.namespace", "namespace"),
    ("metadata.name", ""),
    ("metadata.labels[kueue.x-k8s.io/priority-class]", "priority"),
    ("annotations[cloud.google.com/gke-tpu-slice-topology]", "shape"),
    (".replicas", "count"),
    (".requests[cpu]", "cpu"),
    (".requests[memory]", "memory"),
)
"""Where a part of the JobSet comes from in the stack file."""


def slices_have_queues(
    tpu_pools: dict[str, TpuPool], queueing: Queueing | None
) -> Iterator[Problem]:
    found = [key for key, pool in tpu_pools.items() if isinstance(pool, DynamicPool)]
    if found and queueing is None:
        yield Problem(
            path=f"tpuserve:tpuPools.{found[0]}",
            value="slicing: dynamic",
            rule="its hosts come without links between them, and nothing here forms slices",
            fix=f"add {PATH}",
            source=DYNAMIC,
            severity="warning",
        )


def queues_have_cubes(
    tpu_pools: dict[str, TpuPool], queueing: Queueing | None
) -> Iterator[Problem]:
    if queueing and not blocks(tpu_pools):
        yield Problem(
            path=PATH,
            value=None,
            rule="slices are made of the cubes of a pool with slicing: dynamic, and there is none",
            fix=f"add such a pool, or remove {PATH}",
            source=DYNAMIC,
        )


def somebody_may_use_the_queues(queueing: Queueing | None) -> Iterator[Problem]:
    if queueing is None:
        return
    if bool(queueing.namespaces) == bool(queueing.teams):
        said = "both are given" if queueing.teams else "neither is given"
        yield Problem(
            path=f"{PATH}.namespaces",
            value=None,
            rule=f"the queues are for `namespaces` or for `teams`: {said}",
            fix="write namespaces: [llm]" if not queueing.teams else "keep one of them",
        )
    owners: dict[str, str] = {}
    for key, team in queueing.teams.items():
        for index, each in enumerate(team.namespaces):
            if each in owners:
                yield Problem(
                    path=f"{PATH}.teams.{key}.namespaces[{index}]",
                    value=each,
                    rule=f"is already one of {owners[each]}'s: a namespace has one queue",
                    fix="name it once",
                    source=KUEUE,
                )
            owners[each] = key


def namespaces_are_for_jobs(queueing: Queueing | None) -> Iterator[Problem]:
    for each in queueing.every_namespace if queueing else ():
        if each in RESERVED:
            yield Problem(
                path=f"{PATH}.namespaces",
                value=each,
                rule="belongs to the cluster or to an operator, and Kueue's webhooks leave it out",
                fix="use a namespace of its own for jobs",
                source=NAMESPACES,
            )


def teams_share_what_there_is(
    tpu_pools: dict[str, TpuPool], queueing: Queueing | None
) -> Iterator[Problem]:
    if queueing is None or not queueing.teams:
        return
    total, given = chips(tpu_pools), sum(team.chips for team in queueing.teams.values())
    if given != total:
        over = given > total
        yield Problem(
            path=f"{PATH}.teams",
            value=given,
            rule=f"the shares are {given} chips, the pools have {total}"
            + ("" if over else f": {total - given} are nobody's"),
            fix="lower a share" if over else "raise a share",
            source=KUEUE,
            severity="error" if over else "warning",
        )
    for key, team in queueing.teams.items():
        if team.chips % 4:
            yield Problem(
                path=f"{PATH}.teams.{key}.chips",
                value=team.chips,
                rule="chips come in hosts of four",
                fix=f"use {team.chips // 4 * 4 or 4} or {team.chips // 4 * 4 + 4}",
                source=DYNAMIC,
            )


def teams_share_through_a_cohort(queueing: Queueing | None) -> Iterator[Problem]:
    if queueing and len(queueing.teams) > 1 and queueing.cohort is None:
        yield Problem(
            path=f"{PATH}.cohort",
            value=None,
            rule=f"{len(queueing.teams)} queues use one flavour: without a cohort both may be "
            "given the same hosts, and neither gets what the other leaves idle",
            fix="write cohort: tpus, say",
            source=Source("kubernetes-sigs/kueue issue 14570", READ),
        )


def shapes_fit_the_cubes(
    tpu_pools: dict[str, TpuPool], queueing: Queueing | None
) -> Iterator[Problem]:
    largest = max(blocks(tpu_pools), default=0)
    for index, shape in enumerate(queueing.shapes if queueing else ()):
        path = f"{PATH}.shapes[{index}]"
        if queueing and shape in queueing.shapes[:index]:
            yield Problem(path=path, value=shape, rule="is named twice", fix="remove one of them")
        elif largest and not at_most(slice_of(shape), largest):
            yield Problem(
                path=path,
                value=shape,
                rule=f"takes {partition(slice_of(shape)).count} cubes of one block, the largest "
                f"has {largest}",
                fix="remove it, or add cubes",
                source=DYNAMIC,
            )


def serving_goes_first(queueing: Queueing | None) -> Iterator[Problem]:
    if queueing is None:
        return
    known = queueing.priorities
    if queueing.serving_priority not in known:
        yield Problem(
            path=f"{PATH}.servingPriority",
            value=queueing.serving_priority,
            rule="is no class of `priorities`",
            fix=f"use {max(known, key=lambda key: known[key])}, the highest",
            source=KUEUE,
        )
    elif known[queueing.serving_priority] < max(known.values()):
        highest = max(known, key=lambda key: known[key])
        yield Problem(
            path=f"{PATH}.servingPriority",
            value=queueing.serving_priority,
            rule=f"{highest} is above it: a job that preempts a server waits for ever, for the "
            "server's slices are not freed",
            fix=f"use {highest}",
            source=MEASURED,
        )


def classes_differ(queueing: Queueing | None) -> Iterator[Problem]:
    values: dict[int, str] = {}
    for key, value in (queueing.priorities if queueing else {}).items():
        if value in values:
            yield Problem(
                path=f"{PATH}.priorities.{key}",
                value=value,
                rule=f"is also {values[value]}'s: neither goes before the other",
                fix="give each class a number of its own",
                source=KUEUE,
            )
        if not -(2**31) <= value < 2**31:
            yield Problem(
                path=f"{PATH}.priorities.{key}",
                value=value,
                rule="a priority is a number of 32 bits",
                fix="use 1000, 2000, 3000, say",
                source=KUEUE,
            )
        values[value] = key


def the_slice_controller_stays_the_same(
    queueing: Queueing | None, protect: bool
) -> Iterator[Problem]:
    if queueing is None:
        return
    image, path = queueing.slice_controller.image, f"{PATH}.sliceController.image"
    loose = why_loose(image)
    if protect and not by_digest(image):
        yield Problem(
            path=path,
            value=image,
            rule=f"{loose or 'a tag can be moved'}; in a protected stack it is named by its digest",
            fix="add @sha256:...; `docker buildx imagetools inspect IMAGE` shows it",
            source=IMAGE_REFERENCES,
        )
    elif loose:
        yield Problem(
            path=path,
            value=image,
            rule=loose,
            fix="name an exact version, better with @sha256:...",
            source=IMAGE_REFERENCES,
            severity="warning",
        )


def the_operators_know_this_kubernetes(
    cluster: Cluster, queueing: Queueing | None
) -> Iterator[Problem]:
    if queueing is None:
        return
    found = queueing.releases.set
    low, high = (int(each) for each in re.findall(r"1\.(\d+)", found.kubernetes))
    minor = GkeVersion.parse(cluster.version).minor[1]
    if not low <= minor <= high:
        yield Problem(
            path=f"{PATH}.releases",
            value=f"kueue {found.kueue}",
            rule=f"was tested on Kubernetes {found.kubernetes}, the cluster is 1.{minor}",
            fix="leave `releases` out for the newest set, or try it in a stack of its own",
            source=found.source,
            severity="warning",
        )


def slices_have_time_to_form(queueing: Queueing | None) -> Iterator[Problem]:
    if queueing and queueing.pods_ready_minutes <= queueing.slice_controller.activation_minutes:
        yield Problem(
            path=f"{PATH}.podsReadyMinutes",
            value=queueing.pods_ready_minutes,
            rule="pods start when their slices are there, which may take "
            f"{queueing.slice_controller.activation_minutes} minutes: all would be sent back",
            fix="raise it by the time an image and a model take to load",
            source=MEASURED,
        )


def a_stopped_queue_is_meant(queueing: Queueing | None) -> Iterator[Problem]:
    if queueing and queueing.stop != "None":
        sent = " and sends back what runs" if queueing.stop == "HoldAndDrain" else ""
        yield Problem(
            path=f"{PATH}.stop",
            value=queueing.stop,
            rule=f"the queues admit nothing{sent}",
            fix="remove it to go on",
            source=KUEUE,
            severity="warning",
        )


def jobs_would_run(tpu_pools: dict[str, TpuPool], queueing: Queueing | None) -> Iterator[Problem]:
    if queueing is None or not queueing.every_namespace or not blocks(tpu_pools):
        return
    for key, said in queueing.jobs.items():
        path = f"{PATH}.jobs.{key}"
        yield from _flawed(queueing, tpu_pools, path, key, said)
        if loose := why_loose(said.image):
            yield Problem(
                path=f"{path}.image",
                value=said.image,
                rule=loose,
                fix="name an exact version or a digest",
                source=IMAGE_REFERENCES,
            )
        if slice_name_is_cut(said.namespace, key):
            yield Problem(
                path=path,
                value=f"{said.namespace}/{key}",
                rule="its Slices' names pass 49 characters and end in five digits instead",
                fix="shorten the key to recognise them",
                source=MEASURED,
                severity="warning",
            )


def smoke_pushes_nothing_out_but_itself(
    tpu_pools: dict[str, TpuPool], queueing: Queueing | None, protect: bool
) -> Iterator[Problem]:
    if queueing is None or queueing.smoke is None or not queueing.every_namespace:
        return
    smoke, path = queueing.smoke, f"{PATH}.smoke"
    if protect:
        yield Problem(
            path=path,
            value=None,
            rule="its second job takes every chip, and this stack is protected: it would wait for "
            "the chips that serve, or keep them from a server that starts",
            fix="run it in a stack of its own; see examples/slicing-lab",
            source=MEASURED,
        )
    for key, said in (("sub", smoke.sub), ("super", smoke.super)):
        if blocks(tpu_pools):
            job = _smoke_job(smoke.namespace or queueing.every_namespace[0], smoke.image, said)
            yield from _flawed(queueing, tpu_pools, f"{path}.{key}", key, job)
    first, second = (queueing.priorities.get(each.priority) for each in (smoke.sub, smoke.super))
    if first is not None and second is not None and second <= first:
        yield Problem(
            path=f"{path}.super.priority",
            value=smoke.super.priority,
            rule=f"its {second} is not above the first job's {first}: it would wait, not preempt",
            fix="use a higher class",
            source=KUEUE,
        )


def _smoke_job(namespace: str, image: str, said: SmokeShape) -> SlicedJob:
    return SlicedJob.model_validate(
        {
            "namespace": namespace,
            "image": image,
            "command": ["python3"],
            "shape": said.shape,
            "count": said.count,
            "priority": said.priority,
        }
    )


def _flawed(
    queueing: Queueing, tpu_pools: dict[str, TpuPool], path: str, key: str, said: SlicedJob
) -> Iterator[Problem]:
    if queueing.serving_priority not in queueing.priorities:
        return
    manifest = jobset(
        Job(
            name=key,
            namespace=said.namespace,
            queue=QUEUE,
            image=said.image,
            command=said.command,
            shape=said.shape,
            count=said.count,
            priority=said.priority,
            cpu=said.cpu,
            memory=said.memory,
            restarts=said.restarts,
        )
    )
    for flaw in flaws(manifest, queueing.queue(tpu_pools)):
        yield Problem(
            path=_field(path, flaw),
            value=flaw.value,
            rule=flaw.rule,
            fix=flaw.fix[0].lower() + flaw.fix[1:].rstrip("."),
            source=flaw.source,
            severity=flaw.severity,
        )


def _field(path: str, flaw: Flaw) -> str:
    for end, name in FIELDS:
        if flaw.path.endswith(end):
            return f"{path}.{name}".rstrip(".")
    return path


CHECKS = (
    slices_have_queues,
    queues_have_cubes,
    somebody_may_use_the_queues,
    namespaces_are_for_jobs,
    teams_share_what_there_is,
    teams_share_through_a_cohort,
    shapes_fit_the_cubes,
    serving_goes_first,
    classes_differ,
    the_slice_controller_stays_the_same,
    the_operators_know_this_kubernetes,
    slices_have_time_to_form,
    a_stopped_queue_is_meant,
    jobs_would_run,
    smoke_pushes_nothing_out_but_itself,
)
