"""Rules on models that are prefilled and decoded on slices of their own."""

import re
from collections.abc import Iterator

from catalog.compatibility import judge
from catalog.disaggregated import (
    GUIDES,
    MOST_UNEVEN,
    MUST_AGREE,
    OWNED_ENVIRONMENT,
    OWNED_FLAGS,
    ROLES,
    SCRIPT_SOURCE,
    disagreements,
    group_name,
)
from catalog.groups import Group, leader_worker_set, smallest_pod
from catalog.images import IMAGE_REFERENCES, by_digest, version_of, why_loose
from catalog.packing import Wanted, pack
from catalog.partitions import DYNAMIC, slice_of
from catalog.serving import OWNED_ENVIRONMENT as ENGINE_ENVIRONMENT
from catalog.serving import OWNED_FLAGS as ENGINE_FLAGS
from catalog.sizing import tensor_parallel_error
from catalog.source import READ, Source
from catalog.versions import INFERENCE_POOL_V1, GkeVersion
from catalog.vllm import environment_error, flag_error
from catalog.vllm import release as vllm_release
from catalog.workloads import flaws
from config.checks.engine import LOOKS_SECRET
from config.checks.serving import PATH, SIZING
from config.cluster import Cluster
from config.images import Images
from config.problem import Problem
from config.queueing import QUEUE, Queueing, blocks
from config.serving import ServedModel, disaggregated, single_hosts
from config.slices import wanted
from config.tpu_pools import TpuPool

OVERLAP = Source("llm-d/llm-d guides, 'P/D disaggregation': tune the ratio to the traffic", READ)


def queues_hand_out_their_slices(
    serving: dict[str, ServedModel], queueing: Queueing | None
) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        if queueing is None:
            yield Problem(
                path=f"{PATH}.{key}.mode",
                value=said.mode,
                rule="its slices are formed by the queues of tpuserve:queueing, and there are none",
                fix="add tpuserve:queueing and a pool with slicing: dynamic",
                source=DYNAMIC,
            )
        elif said.namespace not in queueing.every_namespace:
            yield Problem(
                path=f"{PATH}.{key}.namespace",
                value=said.namespace,
                rule="has no queue: its groups would start at once, on no slice",
                fix=f"use {' or '.join(queueing.every_namespace)}, or add it to "
                "tpuserve:queueing.namespaces",
                source=DYNAMIC,
            )


def namespaces_have_one_owner(
    serving: dict[str, ServedModel], queueing: Queueing | None
) -> Iterator[Problem]:
    for key, said in single_hosts(serving).items():
        if queueing is not None and said.namespace in queueing.every_namespace:
            yield Problem(
                path=f"{PATH}.{key}.namespace",
                value=said.namespace,
                rule="is the queues', and open among its own pods; single hosts have one of their "
                "own",
                fix="choose another",
                source=DYNAMIC,
            )


def the_answers_are_right(serving: dict[str, ServedModel], images: Images) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        image = said.image or images.model_server
        found = judge(said.profile, version_of(image))
        if found.verdict == "refuse":
            yield Problem(
                path=f"{PATH}.{key}.image" if said.image else "tpuserve:images.modelServer",
                value=image,
                rule=f"{said.profile.id}, prefilled and decoded apart: {found.reason}",
                fix=found.fix,
                source=found.source,
            )


def models_fit_their_slice(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        shape = slice_of(said.slice)
        told = set()
        for role in ROLES:
            own = said.role(role).max_num_seqs
            path = f"{PATH}.{key}.{role}.maxNumSeqs" if own else f"{PATH}.{key}.model"
            value = own or said.profile.id
            found = said.model_copy(update={"max_num_seqs": own or said.max_num_seqs}).fit(shape)
            illegal = said.tensor_parallel and tensor_parallel_error(
                said.profile, said.tensor_parallel, shape.devices
            )
            for rule in (*found.errors, *found.warnings):
                if rule in told:
                    continue
                told.add(rule)
                parallel = rule == illegal
                yield Problem(
                    path=f"{PATH}.{key}.tensorParallel" if parallel else path,
                    value=said.tensor_parallel if parallel else value,
                    rule=rule,
                    fix="leave it out, and the largest legal one is taken"
                    if parallel
                    else f"a larger slice than {said.slice}, or another model",
                    source=SIZING,
                    severity="error" if rule in found.errors else "warning",
                )


def groups_would_be_admitted(
    serving: dict[str, ServedModel], queueing: Queueing | None, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    if queueing is None or not blocks(tpu_pools):
        return
    if queueing.serving_priority not in queueing.priorities:
        return
    for key, said in disaggregated(serving).items():
        if said.namespace not in queueing.every_namespace:
            continue
        of = slice_of(said.slice)
        told = set()
        for role in ROLES:
            manifest = leader_worker_set(
                Group(
                    name=group_name(key, role, said.role(role).replicas - 1),
                    namespace=said.namespace,
                    queue=QUEUE,
                    priority=queueing.serving_priority,
                    slice=of,
                    labels={},
                    leader_labels={},
                    leader=smallest_pod(of),
                    worker=smallest_pod(of),
                )
            )
            for flaw in flaws(manifest, queueing.queue(tpu_pools)):
                shape = "slice-topology" in flaw.path
                path = f"{PATH}.{key}.slice" if shape else f"{PATH}.{key}"
                if (path, flaw.rule) in told:
                    continue
                told.add((path, flaw.rule))
                yield Problem(
                    path=path,
                    value=said.slice if shape else flaw.value,
                    rule=flaw.rule,
                    fix=flaw.fix[0].lower() + flaw.fix[1:].rstrip("."),
                    source=flaw.source,
                    severity=flaw.severity,
                )


def groups_have_cubes(
    serving: dict[str, ServedModel], queueing: Queueing | None, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    cubes = blocks(tpu_pools)
    if queueing is None or not cubes or not disaggregated(serving):
        return
    models = wanted(serving)
    asked = sum(each.chips for each in models)
    if not pack(cubes, models).fits:
        for key, said in disaggregated(serving).items():
            spare = f" and {said.spare_slices} spare" if said.spare_slices else ""
            yield Problem(
                path=f"{PATH}.{key}",
                value=f"{said.prefill.replicas} + {said.decode.replicas} groups{spare}",
                rule=f"slices of {said.slice} for all models take {asked} chips, and they do not "
                f"lie on {sum(cubes)} cubes of 64: the rest would wait for ever",
                fix="lower replicas or spareSlices, use a smaller slice, or add cubes; "
                "`python -m ops plan` draws it",
                source=DYNAMIC,
            )
        return
    for part, shape, count in _smoke(queueing):
        if not pack(cubes, [*models, Wanted(purpose=part, shape=shape, count=count)]).fits:
            yield Problem(
                path=f"tpuserve:queueing.smoke.{part}",
                value=f"{count} x {shape}",
                rule=f"does not lie beside the {asked} chips of the served models, which are never "
                "given back",
                fix="remove the smoke test here; examples/slicing-lab runs it in a stack of its "
                "own",
                source=DYNAMIC,
            )
    for key, job in queueing.jobs.items():
        if not pack(cubes, [*models, Wanted(purpose=key, shape=job.shape, count=job.count)]).fits:
            yield Problem(
                path=f"tpuserve:queueing.jobs.{key}",
                value=f"{job.count} x {job.shape}",
                rule=f"does not lie beside the {asked} chips of the served models: it would wait "
                "for ever",
                fix="ask for less, or lower the replicas of a model",
                source=DYNAMIC,
            )


def _smoke(queueing: Queueing) -> Iterator[tuple[str, str, int]]:
    if queueing.smoke is not None:
        for part, said in (("sub", queueing.smoke.sub), ("super", queueing.smoke.super)):
            yield part, said.shape, said.count


def groups_have_quota(
    serving: dict[str, ServedModel], queueing: Queueing | None, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    if queueing is None or not queueing.teams:
        return
    for team, (namespaces, chips) in queueing.shares(tpu_pools).items():
        inside = {
            key: said
            for key, said in disaggregated(serving).items()
            if said.namespace in namespaces
        }
        asked = sum(each.chips for each in wanted(inside))
        if asked > chips:
            yield Problem(
                path=f"tpuserve:queueing.teams.{team}.chips",
                value=chips,
                rule=f"{', '.join(inside)} in its namespaces take {asked}: a server on borrowed "
                "chips may lose them, and its slice is never freed",
                fix=f"raise it to {asked}, or lower replicas",
                source=DYNAMIC,
            )


def roles_keep_step(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        few, many = sorted((said.prefill.replicas, said.decode.replicas))
        if many > MOST_UNEVEN * few:
            yield Problem(
                path=f"{PATH}.{key}",
                value=f"{said.prefill.replicas} prefill, {said.decode.replicas} decode",
                rule=f"more than {MOST_UNEVEN} groups of one role for each of the other: the "
                "larger one waits",
                fix="measure with `python -m ops load`, and bring them closer",
                source=OVERLAP,
                severity="warning",
            )


def flags_leave_the_cache_alone(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        for index, argument in enumerate(said.extra_args):
            if _flag(argument) in OWNED_FLAGS:
                yield _owned(f"{PATH}.{key}.extraArgs[{index}]", argument)
        for name in said.extra_env:
            if name in OWNED_ENVIRONMENT:
                yield _owned(f"{PATH}.{key}.extraEnv.{name}", None)


def a_role_has_flags_of_its_own(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        for role in ROLES:
            own, path = said.role(role), f"{PATH}.{key}.{role}"
            for index, argument in enumerate(own.extra_args):
                yield from _argument(f"{path}.extraArgs[{index}]", argument, f"{PATH}.{key}")
            for name, value in own.extra_env.items():
                yield from _environment(f"{path}.extraEnv.{name}", name, value)


def _argument(path: str, argument: str, shared: str) -> Iterator[Problem]:
    flag = _flag(argument)
    if flag in OWNED_FLAGS:
        yield _owned(path, argument)
    elif flag in MUST_AGREE:
        yield Problem(
            path=path,
            value=argument,
            rule="shapes the cache, and a role reads the blocks of the other only if both have it",
            fix=f"move it to {shared}.extraArgs, or to the field for it",
            source=GUIDES,
        )
    elif LOOKS_SECRET.search(argument):
        yield _secret(path)
    elif flag in ENGINE_FLAGS:
        yield _owned(path, argument)
    elif rule := flag_error(argument):
        yield _unknown(path, argument, rule)


def _environment(path: str, name: str, value: str) -> Iterator[Problem]:
    if name in OWNED_ENVIRONMENT or name in ENGINE_ENVIRONMENT:
        yield _owned(path, None)
    elif LOOKS_SECRET.search(value):
        yield _secret(path)
    elif rule := environment_error(name):
        yield _unknown(path, value, rule)


def roles_understand_each_other(
    serving: dict[str, ServedModel], images: Images
) -> Iterator[Problem]:
    """Of two servers made here this must hold; it is shown for each stack, not believed."""
    for key, said in disaggregated(serving).items():
        prefill, decode = (
            said.role_engine(role, weights_bucket="", image=images.model_server) for role in ROLES
        )
        for each in disagreements(prefill, decode):
            if not any(
                _flag(a) in each for a in (*said.prefill.extra_args, *said.decode.extra_args)
            ):
                yield Problem(
                    path=f"{PATH}.{key}",
                    value=each,
                    rule="prefill and decode differ in what shapes the cache",
                    fix="report it: the program makes both from one place",
                    source=GUIDES,
                )


def several_hosts_find_their_script(
    serving: dict[str, ServedModel], images: Images
) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        image = said.image or images.model_server
        if slice_of(said.slice).multi_host and version_of(image) is None:
            yield Problem(
                path=f"{PATH}.{key}.image" if said.image else "tpuserve:images.modelServer",
                value=image,
                rule="the script that joins hosts lies in another folder in every few releases, "
                "and the tag does not say which this is",
                fix="use a tag that begins with vMAJOR.MINOR.PATCH, or slice: 2x2x1",
                source=SCRIPT_SOURCE,
            )


def gke_has_the_pool(serving: dict[str, ServedModel], cluster: Cluster) -> Iterator[Problem]:
    floor = INFERENCE_POOL_V1
    if disaggregated(serving) and GkeVersion.parse(cluster.version) < floor.version:
        yield Problem(
            path="tpuserve:cluster.version",
            value=cluster.version,
            rule=f"{floor.feature} needs {floor.version}; below it the definitions would be "
            "somebody else's, and GKE's upgrade collides with them",
            fix=f"use {floor.version} or newer",
            source=floor.source,
        )


def groups_have_time_to_load(
    serving: dict[str, ServedModel], queueing: Queueing | None, images: Images
) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        engine = said.engine(slice_of(said.slice), weights_bucket="", image=images.model_server)
        needed = -(-engine.startup_seconds // 60)
        if queueing and queueing.pods_ready_minutes < needed:
            yield Problem(
                path="tpuserve:queueing.podsReadyMinutes",
                value=queueing.pods_ready_minutes,
                rule=f"{key} may load for {needed} minutes, and an evicted group never frees its "
                "slice",
                fix=f"raise it to {needed} or more",
                source=SIZING,
            )


def the_picker_can_run(
    serving: dict[str, ServedModel], cluster: Cluster, protect: bool
) -> Iterator[Problem]:
    machine = cluster.system_pool.machine
    size = re.search(r"-(\d+)$", machine)
    for key, said in disaggregated(serving).items():
        path = f"{PATH}.{key}.router"
        if size and said.router.cpus >= int(size.group(1)):
            yield Problem(
                path=f"{path}.cpus",
                value=said.router.cpus,
                rule=f"a node of the system pool is a {machine}, and some of it is taken",
                fix="lower it, or use a larger systemPool.machine",
                source=GUIDES,
            )
        of = said.router.release
        for field, given, default in (
            ("image", said.router.image, of.picker),
            ("sidecarImage", said.router.sidecar_image, of.sidecar),
        ):
            image = given or default
            loose = why_loose(image)
            if loose or (protect and not by_digest(image)):
                yield Problem(
                    path=f"{path}.{field}",
                    value=image,
                    rule=loose
                    or "a tag can be moved; in a protected stack an image has its digest",
                    fix="add @sha256:...; `docker buildx imagetools inspect IMAGE` shows it",
                    source=IMAGE_REFERENCES,
                )


def prefill_has_work(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        length = said.fit(slice_of(said.slice)).max_model_len
        if said.router.local_prefill_tokens >= length:
            yield Problem(
                path=f"{PATH}.{key}.router.localPrefillTokens",
                value=said.router.local_prefill_tokens,
                rule=f"no request is longer than {length} tokens: the prefill groups would idle",
                fix="use 0, or a few hundred",
                source=GUIDES,
            )


def answers_are_not_cut(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        if said.answer_seconds < 60:
            yield Problem(
                path=f"{PATH}.{key}.answerSeconds",
                value=said.answer_seconds,
                rule="the load balancer breaks off answers that take longer",
                fix="use 3600",
                source=GUIDES,
                severity="warning",
            )


def _flag(argument: str) -> str:
    return argument.partition("=")[0].partition(".")[0]


def _owned(path: str, value: str | None) -> Problem:
    return Problem(
        path=path,
        value=value,
        rule="the program sets this itself: another value gives wrong answers without an error",
        fix="remove it",
        source=GUIDES,
    )


def _unknown(path: str, value: str, rule: str) -> Problem:
    return Problem(
        path=path, value=value, rule=rule, fix="correct or remove it", source=vllm_release().source
    )


def _secret(path: str) -> Problem:
    return Problem(
        path=path,
        value=None,
        rule="looks like a secret, and would stand in plain text in state and pod spec",
        fix="revoke it; apiKeySecret is the way for a key",
        source="Kubernetes docs, 'Good practices for Kubernetes Secrets'",
    )


CHECKS = (
    queues_hand_out_their_slices,
    namespaces_have_one_owner,
    the_answers_are_right,
    models_fit_their_slice,
    groups_would_be_admitted,
    groups_have_cubes,
    groups_have_quota,
    roles_keep_step,
    flags_leave_the_cache_alone,
    a_role_has_flags_of_its_own,
    roles_understand_each_other,
    several_hosts_find_their_script,
    gke_has_the_pool,
    groups_have_time_to_load,
    the_picker_can_run,
    prefill_has_work,
    answers_are_not_cut,
)
