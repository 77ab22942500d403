"""Rules on the jobs of a stack, and on its smoke test."""

from collections.abc import Iterator

from catalog.disaggregated import ROLES, group_name
from catalog.jobs import SUB, SUPER, Job, mistakes
from catalog.partitions import slice_of
from catalog.router import PICKER_SUFFIX
from catalog.source import READ, Source
from catalog.workloads import MEASURED, Flaw, Queue, slice_name_is_cut
from config.checks.pinned import exact
from config.problem import Problem
from config.queueing import KUEUE, QUEUE, Queueing, Smoke, SmokeShape, blocks
from config.serving import ServedModel, disaggregated
from config.tpu_pools import TpuPool

PATH = "tpuserve:queueing"
ACCOUNTS = Source("Kubernetes docs, 'Service Accounts'; JobSet and LWS, headless Services", READ)

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


def jobs_would_run(tpu_pools: dict[str, TpuPool], queueing: Queueing | None) -> Iterator[Problem]:
    if queueing is None or not queueing.every_namespace or not blocks(tpu_pools):
        return
    for key, said in queueing.jobs.items():
        path = f"{PATH}.jobs.{key}"
        yield from _flawed(queueing, tpu_pools, path, queueing.job(key))
        yield from exact(f"{path}.image", said.image)
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
    yield from exact(f"{path}.image", smoke.image)
    if queueing.stop != "None":
        yield Problem(
            path=f"{PATH}.stop",
            value=queueing.stop,
            rule="the update waits for the smoke jobs to start, and the queues admit nothing",
            fix="remove stop, or smoke",
            source=KUEUE,
        )
    namespace = smoke.namespace or queueing.every_namespace[0]
    if namespace not in queueing.every_namespace:
        yield Problem(
            path=f"{path}.namespace",
            value=namespace,
            rule=f"the namespace has no queue {QUEUE}",
            fix=f"use {' or '.join(queueing.every_namespace)}, or leave it out",
            source=KUEUE,
        )
    elif blocks(tpu_pools):
        found = [
            problem
            for key, name, said in (("sub", SUB, smoke.sub), ("super", SUPER, smoke.super))
            for problem in _flawed(
                queueing, tpu_pools, f"{path}.{key}", _smoke_job(name, namespace, smoke.image, said)
            )
        ]
        yield from found
        if not found:
            yield from _both_run(smoke, queueing.queue(tpu_pools), namespace)
    first, second = (queueing.priorities.get(each.priority) for each in (smoke.sub, smoke.super))
    if first is not None and second is not None and second <= first:
        yield Problem(
            path=f"{path}.super.priority",
            value=smoke.super.priority,
            rule=f"its {second} is not above the first job's {first}: it would wait, not preempt",
            fix="use a higher class",
            source=KUEUE,
        )


def _both_run(smoke: Smoke, rules: Queue, namespace: str) -> Iterator[Problem]:
    both = (smoke.sub, smoke.super)
    taken = sum(each.count * slice_of(each.shape).chips for each in both)
    hosts = [each.count * slice_of(each.shape).hosts for each in both]
    if rules.fit(hosts) and taken <= rules.chips[namespace]:
        yield Problem(
            path=f"{PATH}.smoke.super.shape",
            value=smoke.super.shape,
            rule=f"both jobs together take {taken} chips and have room side by side: nothing is "
            "pushed out",
            fix="use a larger shape, all the cubes of a block say, or raise a count",
            source=MEASURED,
            severity="warning",
        )


def _smoke_job(name: str, namespace: str, image: str, said: SmokeShape) -> Job:
    return Job(
        name=name,
        namespace=namespace,
        queue=QUEUE,
        image=image,
        command=("python3",),
        cpu="1",
        memory="1Gi",
        restarts=0,
        shape=said.shape,
        count=said.count,
        priority=said.priority,
    )


def names_are_free(serving: dict[str, ServedModel], queueing: Queueing | None) -> Iterator[Problem]:
    """Jobs, the smoke test and servers make objects named like themselves."""
    if queueing is None:
        return
    taken = {
        (kind, said.namespace, name): f"tpuserve:serving.{key}"
        for key, said in disaggregated(serving).items()
        for kind, name in (
            ("ServiceAccount", key),
            ("ServiceAccount", f"{key}{PICKER_SUFFIX}"),
            ("Service", f"{key}{PICKER_SUFFIX}"),
            # LeaderWorkerSets and JobSets have a Service of their own name.
            *(
                ("Service", group_name(key, role, index))
                for role in ROLES
                for index in range(said.role(role).replicas)
            ),
        )
    }
    if queueing.smoke is not None and queueing.every_namespace:
        namespace = queueing.smoke.namespace or queueing.every_namespace[0]
        for name in (SUB, SUPER):
            taken |= dict.fromkeys(_made(namespace, name), f"{PATH}.smoke")
    for key, job in queueing.jobs.items():
        own = dict.fromkeys(_made(job.namespace, key), f"{PATH}.jobs.{key}")
        if key == "default":
            yield Problem(
                path=f"{PATH}.jobs.{key}",
                value=key,
                rule="the job's service account is named after it, and every namespace has a "
                "default one of Kubernetes' own",
                fix="choose another key",
                source=ACCOUNTS,
            )
        for kind, _, _ in [each for each in own if each in taken][:1]:
            yield Problem(
                path=f"{PATH}.jobs.{key}",
                value=f"{job.namespace}/{key}",
                rule=f"makes a {kind} of this name, and so does {taken[kind, job.namespace, key]}",
                fix="choose another key, or another namespace",
                source=ACCOUNTS,
            )


def _made(namespace: str, name: str) -> list[tuple[str, str, str]]:
    return [(kind, namespace, name) for kind in ("ServiceAccount", "JobSet", "Service")]


def _flawed(
    queueing: Queueing, tpu_pools: dict[str, TpuPool], path: str, job: Job
) -> Iterator[Problem]:
    for flaw in mistakes(job, queueing.queue(tpu_pools)):
        yield Problem(
            path=_field(path, flaw),
            value=flaw.value,
            rule=flaw.rule,
            fix=flaw.fix,
            source=flaw.source,
            severity=flaw.severity,
        )


def _field(path: str, flaw: Flaw) -> str:
    if flaw.path.startswith(("extra.", "containerExtra.")):
        return f"{path}.{flaw.path}"
    for end, name in FIELDS:
        if flaw.path.endswith(end):
            return f"{path}.{name}".rstrip(".")
    return path


CHECKS = (
    jobs_would_run,
    smoke_pushes_nothing_out_but_itself,
    names_are_free,
)
