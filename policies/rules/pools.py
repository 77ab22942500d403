"""How large a TPU node pool is, worked out from its inputs."""

from __future__ import annotations

from math import ceil

from rules import facts
from rules.facts import Machine
from rules.kinds import CLUSTER, NODE_POOL, RESOURCE_POLICY
from rules.model import Resource, Stack, UndecidedError

DEFAULT_MAX_PODS = 110


def is_tpu(pool: Resource) -> bool:
    return bool(facts.TPU_MACHINE.fullmatch(pool.text("nodeConfig.machineType") or ""))


TPU_POOL = NODE_POOL.where("TPU node pools", is_tpu)


def machine_of(pool: Resource) -> Machine | None:
    return facts.MACHINES.get(pool.text("nodeConfig.machineType") or "")


def policy_of(pool: Resource, stack: Stack) -> Resource | None:
    """The stack's resource policy a pool names, if it is the stack's."""
    try:
        wanted = pool.text("placementPolicy.policyName")
    except UndecidedError:
        policies = stack.of(RESOURCE_POLICY)
        if len(policies) == 1:
            return policies[0]  # type: ignore[no-any-return]
        raise
    if not wanted:
        return None
    for policy in stack.of(RESOURCE_POLICY):
        if wanted in {policy.text("name"), policy.name}:
            return policy  # type: ignore[no-any-return]
    return None


def topology_of(pool: Resource, stack: Stack) -> str | None:
    """The topology of one slice of the pool; that of a single host where none is asked for."""
    own = pool.text("placementPolicy.tpuTopology")
    if own:
        return own
    policy = policy_of(pool, stack)
    if policy is not None:
        return policy.text("workloadPolicy.acceleratorTopology")
    if pool.text("placementPolicy.policyName"):
        return None  # a policy made elsewhere decides
    machine = machine_of(pool)
    return machine.host_topology if machine else None


def is_cube(pool: Resource, stack: Stack) -> bool:
    """Whether the pool is one sub-block of dynamic slicing."""
    policy = policy_of(pool, stack)
    return (
        policy is not None
        and policy.text("workloadPolicy.acceleratorTopologyMode") == "PROVISION_ONLY"
    )


def zone_count(pool: Resource) -> int:
    zones = pool.texts("nodeLocations")
    if zones:
        return len(zones)
    location = pool.text("location") or ""
    return 1 if facts.ZONE.fullmatch(location) else 3


def max_nodes(pool: Resource) -> int | None:
    """Most nodes the pool may have in all its zones."""
    total = pool.number("autoscaling.totalMaxNodeCount")
    if total:
        return total
    for path in ("autoscaling.maxNodeCount", "nodeCount", "initialNodeCount"):
        count = pool.number(path)
        if count is not None:
            return count * zone_count(pool)
    return None


def max_chips(pool: Resource) -> int | None:
    nodes, machine = max_nodes(pool), machine_of(pool)
    return None if nodes is None or machine is None else nodes * machine.chips


def max_pods(pool: Resource, stack: Stack) -> int:
    own = pool.number("maxPodsPerNode")
    if own is not None:
        return own
    defaults = [c.number("defaultMaxPodsPerNode") for c in stack.of(CLUSTER)]
    return next((d for d in defaults if d is not None), DEFAULT_MAX_PODS)


def surge(pool: Resource) -> int:
    """Extra nodes an upgrade may add; one where nothing is said."""
    if pool.text("upgradeSettings.strategy") == "BLUE_GREEN":
        return max_nodes(pool) or 0
    extra = pool.number("upgradeSettings.maxSurge")
    return 1 if extra is None else extra


def capacity_kind(pool: Resource) -> str:
    """How the pool's machines are bought; several kinds at once give their names joined by +."""
    kinds = []
    affinity = pool.text("nodeConfig.reservationAffinity.consumeReservationType")
    if affinity in {"SPECIFIC_RESERVATION", "ANY_RESERVATION", "ANY_RESERVATION_THEN_FAIL"}:
        kinds.append("reservation")
    if pool.flag("nodeConfig.spot") is True or pool.flag("nodeConfig.preemptible") is True:
        kinds.append("spot")
    if pool.flag("nodeConfig.flexStart") is True:
        kinds.append("flex-start")
    if pool.flag("queuedProvisioning.enabled") is True:
        kinds.append("queued")
    return "+".join(kinds) or "on-demand"


def price(pool: Resource) -> float | None:
    """USD per chip and hour, list price; None where no price with a source is known."""
    machine = machine_of(pool)
    if machine is None:
        return None
    label = machine.generation.label
    if capacity_kind(pool) == "spot" and label in facts.USD_PER_CHIP_HOUR_SPOT:
        return facts.USD_PER_CHIP_HOUR_SPOT[label]
    return facts.USD_PER_CHIP_HOUR.get(label)


def hosts(topology: str, machine: Machine) -> int:
    return ceil(facts.chips_of(topology) / machine.chips)
