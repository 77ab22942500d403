"""Rules on slices, cubes and capacity."""

import math
from collections.abc import Iterator

from catalog.accelerators import (
    ACCELERATORS,
    CUBE,
    PLAN_TPUS,
    format_topology,
    nearest_topologies,
    parse_topology,
    slices,
    why_illegal,
)
from catalog.names import (
    GKE_NAMES,
    INSTANCE_CUT,
    INSTANCE_NAMES,
    NAMING,
    POLICY_LIMIT,
    POOL_LIMIT,
    PROVISION_ONLY,
    SYSTEM_POOL,
    cube_pool,
    workload_policy,
)
from catalog.source import READ, Source, docs
from config.checks.cluster import DYNAMIC
from config.checks.extras import NODE_POOL, Refusal, extras
from config.problem import Problem
from config.sizes import sized
from config.tpu_pools import DynamicPool, FlexStart, Reservation, StaticPool, TpuPool

PATH = "tpuserve:tpuPools"
CAPACITY = docs("TPU capacity modes")
FLEX_START = docs("About GPU and TPU provisioning with flex-start")
QUEUED = Source("GoogleCloudPlatform/cluster-toolkit 1047080, gke-node-pool", READ)
PLACEMENT = Source("vllm-project/ci-infra PR 547", READ)


def topologies_are_legal(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _static(tpu_pools):
        accelerator = ACCELERATORS[pool.accelerator]
        topology = parse_topology(pool.topology)
        if slices(accelerator, topology):
            continue
        near = [format_topology(each) for each in nearest_topologies(accelerator, topology)]
        yield Problem(
            path=f"{PATH}.{name}.topology",
            value=pool.topology,
            rule=f"no slice of {accelerator.product}: {why_illegal(accelerator, topology)}",
            fix=f"use {' or '.join(near)}",
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


def sub_blocks_match_cubes(project: str, tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, pool in sized(tpu_pools):
        if not isinstance(pool.capacity, Reservation) or not pool.capacity.sub_blocks:
            continue
        path = f"{PATH}.{name}.capacity.subBlocks"
        cubes = _cubes(pool.max_chips)
        if isinstance(pool, StaticPool) and (pool.accelerator != "tpu7x" or cubes > 1):
            yield Problem(
                path=path,
                value=", ".join(pool.capacity.sub_blocks),
                rule="a sub-block is one cube of 64 TPU7x chips; this pool is up to "
                f"{pool.max_chips} chips of {pool.accelerator}",
                fix="leave them out and name the block, or use a slice of at most 64 chips",
                source=DYNAMIC,
            )
            continue
        if pool.capacity.block is None or len(pool.capacity.sub_blocks) != cubes:
            yield Problem(
                path=path,
                value=", ".join(pool.capacity.sub_blocks),
                rule=f"one sub-block per cube ({cubes}), all of a named block",
                fix="name as many as cubes, or leave them out and GKE picks",
                source=DYNAMIC,
            )
        for each in pool.capacity.sub_blocks:
            taken = pool.capacity.path(project, each)
            if taken in seen:
                yield Problem(
                    path=path,
                    value=each,
                    rule=f"the sub-block is already taken by {seen[taken]}",
                    fix="a sub-block holds one cube; name another",
                    source=DYNAMIC,
                )
            seen[taken] = path


def cubes_fit_their_block(project: str, tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    limit = ACCELERATORS["tpu7x"].cubes
    taken: dict[str, int] = {}
    for name, pool in sized(tpu_pools):
        if (
            not isinstance(pool.capacity, Reservation)
            or pool.capacity.block is None
            or pool.accelerator != "tpu7x"
        ):
            continue
        block = pool.capacity.path(project)
        taken[block] = taken.get(block, 0) + pool.max_chips
        if (cubes := _cubes(taken[block])) > limit:
            yield Problem(
                path=f"{PATH}.{name}." + ("cubes" if isinstance(pool, DynamicPool) else "topology"),
                value=pool.cubes if isinstance(pool, DynamicPool) else pool.topology,
                rule=f"a block has at most {limit} cubes; with this pool it is {cubes}",
                fix=f"ask for {limit} in all, or name a second block in a pool of its own",
                source=DYNAMIC,
            )


def placement_type_is_for_workload_policies(tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for name, pool in _static(tpu_pools):
        if not pool.placement_type or len(pool.candidates()) != 1:
            continue
        if not pool.slice.needs_policy:
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


def policy_names_fit(name: str, tpu_pools: dict[str, TpuPool]) -> Iterator[Problem]:
    for key, pool in sized(tpu_pools):
        if not pool.slice.needs_policy:
            continue
        mode = PROVISION_ONLY if isinstance(pool, DynamicPool) else None
        policy = workload_policy(name, key, pool.slice.shape, mode)
        if len(policy) > POLICY_LIMIT:
            yield Problem(
                path=f"{PATH}.{key}",
                value=key,
                rule=f"its workload policy {policy} has at most {POLICY_LIMIT} characters, "
                f"this {len(policy)}",
                fix=f"shorten the key or tpuserve:name by {len(policy) - POLICY_LIMIT}",
                source=NAMING,
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
        yield from extras(f"{PATH}.{name}.extra", pool.extra, NODE_POOL, _unqueued(pool))


def _unqueued(pool: TpuPool) -> dict[str, Refusal]:
    """Queued provisioning waits for capacity; on some kinds there is nothing to wait for."""
    if not isinstance(pool.capacity, Reservation | FlexStart):
        return {}
    rule = f"capacity of kind {pool.capacity.kind} is not provisioned through a queue"
    fix = "remove it, or set capacity.kind: on-demand"
    return {"queued_provisioning": Refusal(rule=rule, fix=fix, source=QUEUED)}


def _static(tpu_pools: dict[str, TpuPool]) -> Iterator[tuple[str, StaticPool]]:
    return ((name, pool) for name, pool in tpu_pools.items() if isinstance(pool, StaticPool))


def _cubes(chips: int) -> int:
    """Cubes that hold so many chips."""
    return -(-chips // math.prod(CUBE))


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
    policy_names_fit,
    pool_names_are_free,
    pool_extras_exist_and_are_free,
)
