"""Rules on slices, cubes and capacity."""

import difflib
from collections.abc import Iterator

from catalog.accelerators import (
    ACCELERATORS,
    PLAN_TPUS,
    format_topology,
    parse_topology,
    slices,
    topologies,
    why_illegal,
)
from catalog.names import (
    GKE_NAMES,
    INSTANCE_CUT,
    INSTANCE_NAMES,
    POOL_LIMIT,
    SYSTEM_POOL,
    cube_pool,
)
from catalog.provider_inputs import NODE_POOL
from catalog.source import READ, Source, docs
from config.checks.cluster import DYNAMIC, extras
from config.problem import Problem
from config.tpu_pools import DynamicPool, FlexStart, Reservation, StaticPool, TpuPool

PATH = "tpuserve:tpuPools"
CAPACITY = docs("TPU capacity modes")
FLEX_START = docs("About GPU and TPU provisioning with flex-start")
PLACEMENT = Source("vllm-project/ci-infra PR 547", READ)

OWNED = frozenset(
    """
    autoscaling cluster initial_node_count location management max_pods_per_node name
    network_config node_config node_count node_locations placement_policy project
    upgrade_settings
    """.split()
)
"""Arguments of the provider's NodePool that the program sets itself."""


def topologies_are_legal(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _static(tpu_pools):
        accelerator = ACCELERATORS[pool.accelerator]
        topology = parse_topology(pool.topology)
        if slices(accelerator, topology):
            continue
        legal = [format_topology(each) for each in topologies(accelerator, largest=512)]
        in_order = format_topology(tuple(sorted(topology)))
        close = (
            [in_order]
            if in_order in legal
            else difflib.get_close_matches(pool.topology, legal, n=3, cutoff=0.5)
        )
        yield Problem(
            path=f"{PATH}.{name}.topology",
            value=pool.topology,
            rule=f"no slice of {accelerator.product}: {why_illegal(accelerator, topology)}",
            fix=f"use {' or '.join(close or legal[:6])}",
            source=PLAN_TPUS,
        )


def one_machine_type_is_meant(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _static(tpu_pools):
        every = slices(ACCELERATORS[pool.accelerator], parse_topology(pool.topology))
        if not every or len(pool.candidates()) == 1:
            continue
        options = [
            f"chipsPerHost: {each.machine.chips} ({each.machine.name}, {each.hosts} host"
            f"{'s' if each.multi_host else ''})"
            for each in every
        ]
        rule = (
            f"{pool.topology} exists on {len(every)} machine types"
            if pool.chips_per_host is None
            else f"no machine type with {pool.chips_per_host} chips makes {pool.topology}"
        )
        yield Problem(
            path=f"{PATH}.{name}.chipsPerHost",
            value=pool.chips_per_host,
            rule=rule,
            fix=f"set {' or '.join(options)}",
            source=PLAN_TPUS,
        )


def a_pool_of_many_hosts_is_one_slice(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _static(tpu_pools):
        if len(pool.candidates()) == 1 and pool.slice.multi_host and pool.slices.max > 1:
            yield Problem(
                path=f"{PATH}.{name}.slices.max",
                value=pool.slices.max,
                rule=f"a node pool of {pool.topology} is one slice of {pool.slice.hosts} hosts",
                fix="set max: 1 and add a pool per slice",
                source=PLAN_TPUS,
            )


def flex_start_begins_at_zero(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _static(tpu_pools):
        if isinstance(pool.capacity, FlexStart) and pool.slices.min > 0:
            yield Problem(
                path=f"{PATH}.{name}.slices.min",
                value=pool.slices.min,
                rule="flex-start capacity is asked for when work waits, so the pool starts empty",
                fix="set min: 0",
                source=FLEX_START,
            )


def dynamic_slicing_needs_ironwood(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _dynamic(tpu_pools):
        if pool.accelerator != "tpu7x":
            yield Problem(
                path=f"{PATH}.{name}.accelerator",
                value=pool.accelerator,
                rule="only TPU7x slices dynamically",
                fix="set accelerator: tpu7x, or slicing: static with a topology",
                source=DYNAMIC,
            )


def dynamic_slicing_needs_a_reserved_block(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _dynamic(tpu_pools):
        path = f"{PATH}.{name}.capacity"
        if not isinstance(pool.capacity, Reservation):
            yield Problem(
                path=f"{path}.kind",
                value=pool.capacity.kind,
                rule="dynamic slicing needs an All Capacity reservation",
                fix="set kind: reservation with name and block",
                source=DYNAMIC,
            )
        elif pool.capacity.block is None:
            yield Problem(
                path=f"{path}.block",
                value=None,
                rule="all cubes of a super-slice lie in one block of a reservation",
                fix="name it; list them with: gcloud compute reservations blocks list "
                f"{pool.capacity.name} --zone=ZONE",
                source=DYNAMIC,
            )


def sub_blocks_match_cubes(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    seen: dict[tuple[object, ...], str] = {}
    for name, pool in tpu_pools.items():
        if not isinstance(pool.capacity, Reservation) or not pool.capacity.sub_blocks:
            continue
        path = f"{PATH}.{name}.capacity.subBlocks"
        cubes = pool.cubes if isinstance(pool, DynamicPool) else 1
        if pool.capacity.block is None or len(pool.capacity.sub_blocks) != cubes:
            yield Problem(
                path=path,
                value=", ".join(pool.capacity.sub_blocks),
                rule=f"one sub-block per cube ({cubes}), all of a named block",
                fix="name as many as cubes, or leave them out and GKE picks",
                source=DYNAMIC,
            )
        for each in pool.capacity.sub_blocks:
            key = (pool.capacity.project, pool.capacity.name, pool.capacity.block, each)
            if key in seen:
                yield Problem(
                    path=path,
                    value=each,
                    rule=f"the sub-block is already taken by {seen[key]}",
                    fix="a sub-block holds one cube; name another",
                    source=DYNAMIC,
                )
            seen[key] = path


def cubes_fit_their_block(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    taken: dict[tuple[object, ...], int] = {}
    for name, pool in _dynamic(tpu_pools):
        if not isinstance(pool.capacity, Reservation):
            continue
        key = (pool.capacity.project, pool.capacity.name, pool.capacity.block)
        limit = ACCELERATORS["tpu7x"].cubes
        taken[key] = taken.get(key, 0) + pool.cubes
        if taken[key] > limit:
            yield Problem(
                path=f"{PATH}.{name}.cubes",
                value=pool.cubes,
                rule=f"a block has at most {limit} cubes; with this pool it is {taken[key]}",
                fix=f"ask for {limit} in all, or name a second block in a pool of its own",
                source=DYNAMIC,
            )


def placement_type_is_for_workload_policies(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _static(tpu_pools):
        if not pool.placement_type or len(pool.candidates()) != 1:
            continue
        if not (pool.slice.accelerator.workload_policy and pool.slice.multi_host):
            yield Problem(
                path=f"{PATH}.{name}.placementType",
                value=pool.placement_type,
                rule="only pools of many TPU7x hosts carry a workload policy beside this type",
                fix="remove it",
                source=PLACEMENT,
            )


def pool_names_fit(name: str, tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for key, pool in tpu_pools.items():
        longest = cube_pool(key, 0) if isinstance(pool, DynamicPool) else key
        if len(longest) > POOL_LIMIT:
            yield Problem(
                path=f"{PATH}.{key}",
                value=longest,
                rule=f"a node pool's name has at most {POOL_LIMIT} characters, this {len(longest)}",
                fix=f"shorten the key by {len(longest) - POOL_LIMIT}",
                source=GKE_NAMES,
            )
        elif len(name) + len(longest) > INSTANCE_CUT:
            yield Problem(
                path=f"{PATH}.{key}",
                value=longest,
                rule=f"with cluster {name!r} it passes {INSTANCE_CUT} characters, where GKE cuts "
                "instance names: nodes of different pools may look alike",
                fix="shorten the key or tpuserve:name",
                source=INSTANCE_NAMES,
                severity="warning",
            )


def pool_names_are_free(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    taken = {SYSTEM_POOL: "the system pool"}
    for key, pool in tpu_pools.items():
        made = (
            [cube_pool(key, index) for index in range(pool.cubes)]
            if isinstance(pool, DynamicPool)
            else [key]
        )
        for each in made:
            if each in taken:
                yield Problem(
                    path=f"{PATH}.{key}",
                    value=each,
                    rule=f"the node pool's name is already used by {taken[each]}",
                    fix="choose another key",
                    source=GKE_NAMES,
                )
            taken[each] = f"tpuPools.{key}"


def pool_extras_exist_and_are_free(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in tpu_pools.items():
        yield from extras(f"{PATH}.{name}.extra", pool.extra, known=NODE_POOL, owned=OWNED)


def _static(tpu_pools: dict[str, TpuPool]) -> Iterator[tuple[str, StaticPool]]:
    return ((name, pool) for name, pool in tpu_pools.items() if isinstance(pool, StaticPool))


def _dynamic(tpu_pools: dict[str, TpuPool]) -> Iterator[tuple[str, DynamicPool]]:
    return ((name, pool) for name, pool in tpu_pools.items() if isinstance(pool, DynamicPool))


CHECKS = (
    topologies_are_legal,
    one_machine_type_is_meant,
    a_pool_of_many_hosts_is_one_slice,
    flex_start_begins_at_zero,
    dynamic_slicing_needs_ironwood,
    dynamic_slicing_needs_a_reserved_block,
    sub_blocks_match_cubes,
    cubes_fit_their_block,
    placement_type_is_for_workload_policies,
    pool_names_fit,
    pool_names_are_free,
    pool_extras_exist_and_are_free,
)
