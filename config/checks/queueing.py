"""Rules on queues, shapes, priorities and the jobs of a stack."""

from collections.abc import Iterator

from catalog.partitions import DYNAMIC, at_most, partition, slice_of
from catalog.releases import OPERATOR_NAMESPACES
from catalog.source import READ, Source
from catalog.workloads import MEASURED
from config.checks.serving import RESERVED_NAMESPACES
from config.problem import Problem, named_twice
from config.queueing import KUEUE, Queueing, blocks, chips
from config.tpu_pools import DynamicPool, TpuPool

PATH = "tpuserve:queueing"
OPERATORS = ("slice-controller-system", *OPERATOR_NAMESPACES)
NAMESPACES = Source("Kubernetes docs, 'Namespaces'", READ)


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
    tpu_pools: dict[str, TpuPool], named_pools: frozenset[str], queueing: Queueing | None
) -> Iterator[Problem]:
    # A pool with an error of its own may be the one that is missed.
    if queueing and not blocks(tpu_pools) and named_pools <= tpu_pools.keys():
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
    yield from named_twice(f"{PATH}.namespaces", queueing.namespaces)
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
        if each in OPERATORS or RESERVED_NAMESPACES.fullmatch(each):
            yield Problem(
                path=f"{PATH}.namespaces",
                value=each,
                rule="belongs to the cluster, to an operator or to another part of the stack",
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
    a_stopped_queue_is_meant,
)
