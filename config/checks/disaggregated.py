"""Rules on models that are prefilled and decoded on slices of their own."""

from collections.abc import Iterator

from catalog.allocatable import capacity
from catalog.compatibility import judge, kind_of, longest_local_prefill
from catalog.compatibility import text as release_text
from catalog.disaggregated import (
    GUIDES,
    HYBRID_FLAGS,
    HYBRID_STATE,
    MOST_UNEVEN,
    OWNED_ENVIRONMENT,
    OWNED_FLAGS,
    ROLE_ENVIRONMENT,
    ROLE_FLAGS,
    ROLES,
    disagreements,
    flag_of,
    group_name,
)
from catalog.groups import Group, leader_worker_set, renewed_name, smallest_pod
from catalog.images import version_of
from catalog.packing import Wanted, pack
from catalog.partitions import DYNAMIC, slice_of
from catalog.router import PICKER_SUFFIX
from catalog.serving import OWNED_ENVIRONMENT as ENGINE_ENVIRONMENT
from catalog.serving import OWNED_FLAGS as ENGINE_FLAGS
from catalog.serving import SECRET_FLAGS
from catalog.source import READ, Source, docs
from catalog.versions import INFERENCE_POOL_V1, GkeVersion
from catalog.vllm import environment_error, flag_error
from catalog.vllm import release as vllm_release
from catalog.workloads import PRIORITY_LABEL, flaws
from config.checks.engine import LOOKS_SECRET
from config.checks.pinned import stays
from config.checks.sizes import PATH, SIZING, misfits
from config.cluster import Cluster
from config.images import Images
from config.problem import Problem
from config.queueing import QUEUE, Queueing, blocks
from config.serving import Disaggregated, ServedModel, disaggregated, single_hosts
from config.slices import wanted
from config.tpu_pools import TpuPool

CHARTS = Source("llm-d/llm-d-router v0.10.0, config/charts", READ)
ACCOUNTS = Source("Kubernetes docs, 'Service Accounts'", READ)
MACHINES = docs("General-purpose machine family")
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


def names_are_not_taken(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    served = disaggregated(serving)
    for key, said in served.items():
        other = served.get(key.removesuffix(PICKER_SUFFIX))
        if key.endswith(PICKER_SUFFIX) and other and other.namespace == said.namespace:
            yield Problem(
                path=f"{PATH}.{key}",
                value=key,
                rule=f"{key} is what the router's chart calls the picker of "
                f"{key.removesuffix(PICKER_SUFFIX)} in namespace {said.namespace}",
                fix="choose another key",
                source=CHARTS,
            )
        if key == "default":
            yield Problem(
                path=f"{PATH}.{key}",
                value=key,
                rule="the account of the servers is named after it, and every namespace has a "
                "default one of Kubernetes' own",
                fix="name the key after the model",
                source=ACCOUNTS,
            )


def the_answers_are_right(serving: dict[str, ServedModel], images: Images) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        image = said.image or images.model_server
        path = f"{PATH}.{key}.image" if said.image else "tpuserve:images.modelServer"
        tagged = version_of(image)
        if said.release and tagged and release_text(tagged) != said.release:
            yield Problem(
                path=f"{PATH}.{key}.release",
                value=said.release,
                rule=f"the tag of {image} says {release_text(tagged)}",
                fix="remove it: the tag is believed",
            )
        found = judge(said.profile, said.version(images.model_server))
        if found.verdict == "refuse":
            yield Problem(
                path=path,
                value=image,
                rule=f"{said.profile.id}, prefilled and decoded apart: {found.reason}",
                fix=found.fix,
                source=found.source,
            )


def models_fit_their_slice(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        shape = slice_of(said.slice)
        found = (
            each
            for role in ROLES
            for each in misfits(f"{PATH}.{key}", said, shape, said.role(role), at=role)
        )
        yield from dict.fromkeys(found)


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
            name = group_name(key, role, said.role(role).replicas - 1)
            manifest = leader_worker_set(
                Group(
                    name=renewed_name(name) if said.surges else name,
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
                if PRIORITY_LABEL in flaw.path:
                    continue  # told of servingPriority itself
                shape = "slice-topology" in flaw.path
                path = f"{PATH}.{key}.slice" if shape else f"{PATH}.{key}"
                if (path, flaw.rule) in told:
                    continue
                told.add((path, flaw.rule))
                yield Problem(
                    path=path,
                    value=said.slice if shape else flaw.value,
                    rule=flaw.rule,
                    fix=flaw.fix,
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


def spare_slices_are_for_all_groups(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        if 0 < said.spare_slices < said.groups:
            yield Problem(
                path=f"{PATH}.{key}.spareSlices",
                value=said.spare_slices,
                rule=f"a change of the template reaches all {said.groups} groups at once: with "
                "fewer slices some new groups would wait for slices that old ones keep until the "
                "new ones serve",
                fix=f"use 0, and groups restart where they are, or {said.groups}, and new ones "
                "serve before old ones end",
                source="docs/adr/0022",
            )


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
            yield from _moves_the_cache(f"{PATH}.{key}.extraArgs[{index}]", argument, said)
        for name in said.extra_env:
            if name in OWNED_ENVIRONMENT:
                yield _owned(f"{PATH}.{key}.extraEnv.{name}", None)


def _moves_the_cache(path: str, argument: str, said: Disaggregated) -> Iterator[Problem]:
    flag = flag_of(argument)
    if flag in OWNED_FLAGS:
        yield _owned(path, argument)
    elif flag in HYBRID_FLAGS and kind_of(said.profile) == "hybrid":
        yield Problem(
            path=path,
            value=argument,
            rule=f"{said.profile.id} is a hybrid model, whose state is moved by block in cache "
            "mode `align` alone, and this may switch it off: wrong answers without an error",
            fix="remove it",
            source=HYBRID_STATE,
        )


def a_role_has_flags_of_its_own(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        for role in ROLES:
            own, path = said.role(role), f"{PATH}.{key}.{role}"
            for index, argument in enumerate(own.extra_args):
                yield from _argument(f"{path}.extraArgs[{index}]", argument, key, said)
            for name, value in own.extra_env.items():
                yield from _environment(f"{path}.extraEnv.{name}", name, value, key)


def _argument(path: str, argument: str, key: str, said: Disaggregated) -> Iterator[Problem]:
    flag = flag_of(argument)
    if moved := list(_moves_the_cache(path, argument, said)):
        yield from moved
    elif LOOKS_SECRET.search(argument) or flag in SECRET_FLAGS:
        yield _secret(path)
    elif flag in ENGINE_FLAGS:
        yield _owned(path, argument)
    elif rule := flag_error(argument):
        yield _unknown(path, argument, rule)
    elif flag not in ROLE_FLAGS:
        yield _of_both(path, argument, f"{PATH}.{key}.extraArgs")


def _environment(path: str, name: str, value: str, key: str) -> Iterator[Problem]:
    if name in OWNED_ENVIRONMENT or name in ENGINE_ENVIRONMENT:
        yield _owned(path, None)
    elif LOOKS_SECRET.search(value):
        yield _secret(path)
    elif rule := environment_error(name):
        yield _unknown(path, value, rule)
    elif name not in ROLE_ENVIRONMENT:
        yield _of_both(path, value, f"{PATH}.{key}.extraEnv")


def roles_understand_each_other(
    serving: dict[str, ServedModel], images: Images
) -> Iterator[Problem]:
    """Of two servers made here this must hold; it is shown for each stack, not believed."""
    for key, said in disaggregated(serving).items():
        prefill, decode = (
            said.role_engine(role, weights_bucket="", image=images.model_server) for role in ROLES
        )
        for each in disagreements(prefill, decode):
            # What a role has on its own is told above.
            if flag_of(each.partition(":")[0]) not in _own_words(said):
                yield Problem(
                    path=f"{PATH}.{key}",
                    value=each,
                    rule="prefill and decode differ in what shapes the cache",
                    fix="report it: the program makes both from one place",
                    source=GUIDES,
                )


def _own_words(said: Disaggregated) -> set[str]:
    """Flags and names that only one of the roles was given."""
    return {
        name
        for role in ROLES
        for name in (*map(flag_of, said.role(role).extra_args), *said.role(role).extra_env)
    }


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
    cpus, memory = capacity(machine)
    for key, said in disaggregated(serving).items():
        path = f"{PATH}.{key}.router"
        for name, asked, whole in (
            ("cpus", said.router.cpus, cpus),
            ("memoryGib", said.router.memory_gib, memory),
        ):
            if asked >= whole:
                yield Problem(
                    path=f"{path}.{name}",
                    value=asked,
                    rule=f"a node of the system pool is a {machine}, and some of it is taken",
                    fix="lower it, or use a larger systemPool.machine",
                    source=MACHINES,
                )
        if said.router.image and "/" not in said.router.image:
            yield Problem(
                path=f"{path}.image",
                value=said.router.image,
                rule="the chart takes registry and repository apart, and this names no registry",
                fix=f"write REGISTRY/{said.router.image}",
                source=CHARTS,
            )
        of = said.router.release
        for field, given, default in (
            ("image", said.router.image, of.picker),
            ("sidecarImage", said.router.sidecar_image, of.sidecar),
        ):
            yield from stays(f"{path}.{field}", given or default, protect=protect)


def prefill_has_work(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in disaggregated(serving).items():
        length = said.fit(slice_of(said.slice)).max_model_len
        given, most = said.router.local_prefill_tokens, longest_local_prefill(length)
        if given > most:
            yield Problem(
                path=f"{PATH}.{key}.router.localPrefillTokens",
                value=given,
                rule=f"of requests of at most {length} tokens too few, or none, would reach the "
                "prefill groups, and `ops verify` could not show one that does",
                fix=f"use 0, or a few hundred, at most {most}",
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


def _owned(path: str, value: str | None) -> Problem:
    return Problem(
        path=path,
        value=value,
        rule="the program sets this itself, so that both roles fit together",
        fix="remove it; where it may be chosen a field of the schema decides it",
        source=GUIDES,
    )


def _of_both(path: str, value: str, shared: str) -> Problem:
    return Problem(
        path=path,
        value=value,
        rule="may shape the cache, and a role reads the blocks of the other only if both have it",
        fix=f"move it to {shared}, or to the field for it; a role alone may set what fills steps, "
        "logging and patience",
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
    names_are_not_taken,
    the_answers_are_right,
    models_fit_their_slice,
    groups_would_be_admitted,
    groups_have_cubes,
    spare_slices_are_for_all_groups,
    groups_have_quota,
    roles_keep_step,
    flags_leave_the_cache_alone,
    a_role_has_flags_of_its_own,
    roles_understand_each_other,
    gke_has_the_pool,
    groups_have_time_to_load,
    the_picker_can_run,
    prefill_has_work,
    answers_are_not_cut,
)
