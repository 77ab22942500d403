"""The cluster and network around TPU pools: slicing, addresses, versions, protection."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.kinds import (
    BUCKET,
    CLUSTER,
    CRYPTO_KEY,
    NETWORK,
    NODE_POOL,
    SECRET,
    SLICE_TOPOLOGY,
    SUBNETWORK,
    TPU_POD,
)
from rules.model import DROP, Guard, Resource, Setting, Severity, Stack, rule
from rules.pools import (
    TPU_POOL,
    capacity_kind,
    is_cube,
    machine_of,
    max_nodes,
    max_pods,
    surge,
    zone_count,
)
from rules.ranges import Range, cidr, known
from rules.tpu_pools import RESERVED_POOL, WORKLOAD_POLICY


@rule(
    "TPU-10",
    "A network that carries TPU traffic has the largest MTU.",
    severity=Severity.MEDIUM,
    on=NETWORK,
    whole_stack=True,
    fix="Set mtu to 8896 when the network is made; a later change restarts every VM.",
    url=links.MTU,
    guards=[Guard("mtu", 1460), Guard("mtu", DROP)],
)
def jumbo_frames(network: Resource, stack: Stack) -> Iterator[str]:
    if stack.of(TPU_POOL) and network.number("mtu") != facts.TPU_MTU:
        mtu = network.number("mtu") or "unset (1460)"
        yield f"mtu is {mtu}: slices joined over the network were 20 times slower; set 8896"


@rule(
    "TPU-26",
    "Dynamic slicing has everything it depends on.",
    severity=Severity.HIGH,
    on=WORKLOAD_POLICY | TPU_POOL | CLUSTER,
    whole_stack=True,
    fix="TPU7x cubes of 16 hosts on one reservation block, RAPID channel, slice controller on.",
    url=links.DYNAMIC_SLICING,
    guards=[
        Guard("workloadPolicy.type", "HIGH_AVAILABILITY", on=WORKLOAD_POLICY),
        Guard("workloadPolicy.acceleratorTopology", "4x4x8", on=WORKLOAD_POLICY,
              when=lambda p: p.text("workloadPolicy.acceleratorTopologyMode") == "PROVISION_ONLY"),
        Guard("region", "asia-east1", on=WORKLOAD_POLICY,
              when=lambda p: p.text("workloadPolicy.acceleratorTopologyMode") == "PROVISION_ONLY"),
        Guard("nodeConfig.reservationAffinity.consumeReservationType", "NO_RESERVATION",
              on=RESERVED_POOL, when=lambda p: p.has("placementPolicy.policyName")),
        Guard("autoscaling", {"minNodeCount": 0, "maxNodeCount": 16, "locationPolicy": "ANY"},
              on=RESERVED_POOL, when=lambda p: p.has("placementPolicy.policyName")),
        Guard("nodeConfig.machineType", "tpu7x-standard-1t",
              on=RESERVED_POOL, when=lambda p: p.has("placementPolicy.policyName")),
        Guard("releaseChannel.channel", "REGULAR", on=CLUSTER,
              when=lambda c: c.flag("addonsConfig.sliceControllerConfig.enabled") is True),
        Guard("addonsConfig.sliceControllerConfig.enabled", False, on=CLUSTER,
              when=lambda c: c.flag("addonsConfig.sliceControllerConfig.enabled") is True),
        Guard("enableAutopilot", True, on=CLUSTER,
              when=lambda c: c.flag("addonsConfig.sliceControllerConfig.enabled") is True),
    ],
)  # fmt: skip
def slicing_is_complete(thing: Resource, stack: Stack) -> Iterator[str]:
    if thing.type.endswith(":ResourcePolicy"):
        yield from _slicing_policy(thing, stack)
    elif thing.type.endswith(":NodePool"):
        if is_cube(thing, stack):
            yield from _cube(thing, stack)
    elif any(is_cube(pool, stack) for pool in stack.of(TPU_POOL)):
        if thing.flag("enableAutopilot") is True:
            yield "enableAutopilot is on: dynamic slicing needs a Standard cluster"
        if thing.text("releaseChannel.channel") != "RAPID":
            yield "releaseChannel.channel must be RAPID for dynamic slicing"
        if thing.flag("addonsConfig.sliceControllerConfig.enabled") is not True:
            yield (
                "addonsConfig.sliceControllerConfig.enabled must be true: nothing else forms slices"
            )


def _slicing_policy(policy: Resource, stack: Stack) -> Iterator[str]:
    form = policy.node("workloadPolicy")
    if form.text("type") != "HIGH_THROUGHPUT":
        yield f"{form.at('type')} must be HIGH_THROUGHPUT for TPUs"
    if form.text("acceleratorTopologyMode") != "PROVISION_ONLY":
        return
    if form.text("acceleratorTopology") != "4x4x4":
        yield f"{form.at('acceleratorTopology')} must be 4x4x4, whatever slices are formed later"
    region = policy.text("region")
    for pool in stack.of(TPU_POOL):
        place = known(pool, "location")
        if is_cube(pool, stack) and region and place and facts.region_of(place) != region:
            yield f"region is {region}, the pool {pool.name} is in {place}: use one region"


def _cube(pool: Resource, stack: Stack) -> Iterator[str]:
    machine = machine_of(pool)
    if machine is None or machine.generation is not facts.TPU7X or machine.chips != 4:
        yield "nodeConfig.machineType must be tpu7x-standard-4t for dynamic slicing"
    if capacity_kind(pool) != "reservation" or (
        pool.text("nodeConfig.reservationAffinity.consumeReservationType") != "SPECIFIC_RESERVATION"
    ):
        yield (
            "dynamic slicing needs reservationAffinity SPECIFIC_RESERVATION, and nothing beside it"
        )
    if pool.has("autoscaling"):
        yield "autoscaling is set: cubes of dynamic slicing have a fixed nodeCount of 16"
    if zone_count(pool) != 1:
        yield "nodeLocations must name one zone"
    blocks = {_block(p) for p in stack.of(TPU_POOL) if is_cube(p, stack)}
    if len(blocks) > 1:
        yield "the cubes lie in different reservation blocks: a super-slice needs one block"


def _block(pool: Resource) -> str:
    values = pool.texts("nodeConfig.reservationAffinity.values")
    return (values[0] if values else "").partition("/reservationSubBlocks/")[0]


@rule(
    "TPU-36",
    "The cluster's version has every feature the stack uses.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    whole_stack=True,
    fix="Raise minMasterVersion to the floor in the message.",
    url=links.DYNAMIC_SLICING,
    guards=[
        Guard(
            "minMasterVersion",
            "1.30.0-gke.1000000",
            when=lambda c: c.has("minMasterVersion"),
            needs=TPU_POOL,
        ),
    ],
)
def version_floors(cluster: Resource, stack: Stack) -> Iterator[str]:
    text = cluster.text("minMasterVersion")
    master = facts.version(text or "")
    if master is None:
        return
    floors: dict[str, str] = {}
    for pool in stack.of(TPU_POOL):
        machine = machine_of(pool)
        label = machine.generation if machine else None
        if label is facts.TPU7X:
            floors["TPU7x"] = facts.FLOOR_TPU7X
        if label is facts.V6E:
            floors["TPU v6e"] = facts.FLOOR_V6E
        if is_cube(pool, stack):
            floors["dynamic slicing"] = facts.FLOOR_SUPER_SLICING
        node = facts.version(known(pool, "version") or "")
        if node is not None and (node > master or master[1] - node[1] > 2):
            yield f"pool {pool.name} has version {known(pool, 'version')}, too far from {text}"
    for feature, floor in (floors | _object_floors(stack)).items():
        least = facts.version(floor)
        if least is not None and master < least:
            yield f"minMasterVersion is {text}: {feature} needs {floor} or later"


def _object_floors(stack: Stack) -> dict[str, str]:
    floors: dict[str, str] = {}
    for resource in stack.resources:
        if resource.type.endswith(":AutoscalingMetric"):
            floors["AutoscalingMetric"] = facts.FLOOR_AUTOSCALING_METRIC
    for shape in slice_shapes(stack):
        if facts.chips_of(shape) < 64:
            floors[f"the sub-slice {shape}"] = facts.FLOOR_SUB_SLICING
    return floors


def slice_shapes(stack: Stack) -> set[str]:
    """Shapes of dynamic slices the stack's pods ask for."""
    return {shape for pod in stack.of(TPU_POD) if (shape := pod.annotation(SLICE_TOPOLOGY))}


def pod_range(cluster: Resource, stack: Stack) -> Range | None:
    """The range the cluster's pods take their addresses from, where the stack says so."""
    policy = cluster.node("ipAllocationPolicy")
    block = cidr(policy.text("clusterIpv4CidrBlock") or "")
    if block is not None:
        return block
    name = policy.text("clusterSecondaryRangeName")
    for subnet in stack.of(SUBNETWORK):
        for entry in subnet.each("secondaryIpRanges"):
            if name and known(entry, "rangeName") == name:
                return cidr(entry.text("ipCidrRange") or "")
    return None


@rule(
    "TPU-24",
    "Pod addresses suffice for every node the pools may have.",
    severity=Severity.HIGH,
    on=CLUSTER,
    whole_stack=True,
    fix="Widen the pod range or lower maxPodsPerNode; both replace pools later.",
    url=links.POD_CIDR,
    guards=[
        Guard(
            "secondaryIpRanges",
            lambda ranges: [{**entry, "ipCidrRange": "10.250.0.0/28"} for entry in ranges],
            on=SUBNETWORK.where("subnets with pods", lambda s: s.has("secondaryIpRanges")),
        ),
    ],
)
def addresses_suffice(cluster: Resource, stack: Stack) -> Iterator[str]:
    network = pod_range(cluster, stack)
    if network is None:
        return
    used = 0
    for pool in stack.of(NODE_POOL):
        if pool.has("networkConfig.podRange"):
            continue  # a range of its own
        used += _pool_addresses(pool, stack)
    if used > network.num_addresses:
        yield (
            f"the pods range {network} has {network.num_addresses} addresses, the pools at their "
            f"largest take {used}: widen the range, or lower maxPodsPerNode"
        )


def _pool_addresses(pool: Resource, stack: Stack) -> int:
    nodes = (max_nodes(pool) or 0) + surge(pool)
    return nodes << (32 - facts.pod_range_prefix(max_pods(pool, stack)))


@rule(
    "TPU-33",
    "What cannot be made again quickly is protected.",
    severity=Severity.HIGH,
    on=CLUSTER | BUCKET | SECRET | CRYPTO_KEY | RESERVED_POOL,
    fix="Set protect on it (tpuserve:protect).",
    url=links.RESOURCE_OPTIONS,
    settings={
        "reservedPools": Setting("boolean", False, "also demand it of pools on a reservation"),
        "disposableBuckets": Setting(
            "array", ["*cache*"], "names of buckets that may go, with * for any text"
        ),
    },
    guards=[
        Guard("@protect", False, on=CLUSTER | SECRET | CRYPTO_KEY),
        Guard("@protect", False, on=BUCKET, when=lambda b: "cache" not in b.name),
    ],
)
def protected(thing: Resource, settings: dict[str, Any]) -> Iterator[str]:
    if thing.options.protect or (
        thing.type.endswith(":NodePool") and not settings["reservedPools"]
    ):
        return
    names = {thing.name, known(thing, "name") or ""}
    if thing.type.endswith(":Bucket") and any(
        re.fullmatch(re.escape(p).replace(r"\*", ".*"), n)
        for p in settings["disposableBuckets"]
        for n in names
    ):
        return
    yield f"{thing.title} is not protected: set protect (tpuserve:protect: true)"


RULES = [
    jumbo_frames,
    slicing_is_complete,
    version_floors,
    addresses_suffice,
    protected,
]
