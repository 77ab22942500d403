"""Rules on address ranges."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import combinations

from catalog.addresses import (
    MAX_PODS,
    RESERVED_NODE_ADDRESSES,
    SYSTEM_PODS_PER_NODE,
    addresses_per_node,
    pod_addresses,
)
from catalog.source import READ, Source, docs
from config.checks.extras import NETWORK, extras
from config.cluster import Cluster
from config.network import JUMBO_MTU, Network
from config.problem import Problem
from config.sizes import SYSTEM_SURGE, pods_per_node, sized, surge_hosts
from config.tpu_pools import DynamicPool, TpuPool

PATH = "tpuserve:network"
PROXY_ONLY = docs("Proxy-only subnets")
SUBNETS = docs("VPC subnets")
VPC_NATIVE = docs("VPC-native clusters")
PRIVATE_CLUSTERS = docs("Customize your network isolation in GKE")

INTERNAL = [
    IPv4Network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
]
FORBIDDEN = {
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local, with the metadata server",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "kept by Google Cloud for the future in many places",
    "0.0.0.0/8": "no network",
}


def _ranges(network: Network) -> dict[str, IPv4Network]:
    return {
        "nodes": network.nodes,
        "pods": network.pods,
        "services": network.services,
        "proxyOnly": network.proxy_only,
        "controlPlane": network.control_plane,
    }


def ranges_are_disjoint(network: Network) -> Iterator[Problem]:
    for (one, first), (other, second) in combinations(_ranges(network).items(), 2):
        if first.overlaps(second):
            yield Problem(
                path=f"{PATH}.{other}",
                value=second,
                rule=f"overlaps {one} {first}",
                fix="move one of them",
                source=SUBNETS,
            )


def ranges_are_usable(network: Network) -> Iterator[Problem]:
    for key, found in _ranges(network).items():
        taken = [
            (text, use) for text, use in FORBIDDEN.items() if found.overlaps(IPv4Network(text))
        ]
        for text, use in taken:
            yield Problem(
                path=f"{PATH}.{key}",
                value=found,
                rule=f"touches {text} ({use})",
                fix="choose a private range such as 10.0.0.0/18",
                source=SUBNETS,
            )
        if not taken and not any(found.subnet_of(each) for each in INTERNAL):
            yield Problem(
                path=f"{PATH}.{key}",
                value=found,
                rule="is not private address space: real hosts there become unreachable",
                fix="choose a range inside 10.0.0.0/8",
                source=SUBNETS,
                severity="warning",
            )


def proxies_have_room(network: Network) -> Iterator[Problem]:
    length = network.proxy_only.prefixlen
    if length > 26:
        yield Problem(
            path=f"{PATH}.proxyOnly",
            value=network.proxy_only,
            rule="a proxy-only subnet has at least 64 addresses",
            fix="use a /23, or a /26 at the least",
            source=PROXY_ONLY,
        )
    elif length > 23:
        yield Problem(
            path=f"{PATH}.proxyOnly",
            value=network.proxy_only,
            rule="Google recommends 512 addresses for proxies",
            fix="use a /23",
            source=PROXY_ONLY,
            severity="warning",
        )


def the_control_plane_has_a_28(network: Network) -> Iterator[Problem]:
    if network.control_plane.prefixlen != 28:
        yield Problem(
            path=f"{PATH}.controlPlane",
            value=network.control_plane,
            rule="the control plane of private nodes takes exactly a /28",
            fix=f"use {network.control_plane.network_address}/28",
            source=PRIVATE_CLUSTERS,
        )


def services_have_room(network: Network) -> Iterator[Problem]:
    if network.services.prefixlen > 27:
        yield Problem(
            path=f"{PATH}.services",
            value=network.services,
            rule="the Service range of a cluster has at least 32 addresses and never grows",
            fix="use a /20",
            source=VPC_NATIVE,
        )


def every_node_has_an_address(
    network: Network, cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    nodes = _nodes(cluster, tpu_pools)
    room = network.nodes.num_addresses - RESERVED_NODE_ADDRESSES
    if nodes > room:
        yield Problem(
            path=f"{PATH}.nodes",
            value=network.nodes,
            rule=f"holds {max(room, 0)} nodes and the stack may have {nodes}, surge included",
            fix=f"use a /{_prefix(nodes + RESERVED_NODE_ADDRESSES)}",
            source=SUBNETS,
        )


def every_pod_has_an_address(
    network: Network, cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    system, tpu, limits = _pod_demand(network.pods, cluster, tpu_pools)
    if system + tpu > network.pods.num_addresses:
        shares = [
            f"{addresses_per_node(limit)} for a TPU node of {limit} pods"
            for limit in sorted(limits)
        ]
        fitting = _fitting(network.pods, cluster, tpu_pools)
        yield Problem(
            path=f"{PATH}.pods",
            value=network.pods,
            rule=f"holds {network.pods.num_addresses} addresses and the nodes may take "
            f"{system + tpu} ({', '.join([f'{system} for system nodes', *shares])})",
            fix=f"use a /{fitting}; it cannot change without a new cluster",
            source=MAX_PODS,
        )


def the_pod_range_carries_a_whole_block(
    network: Network, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    for name, pool in tpu_pools.items():
        if not isinstance(pool, DynamicPool):
            continue
        block = pool.slice.accelerator.cubes
        hosts = block * pool.slice.hosts
        taken = pod_addresses(hosts, pods_per_node(pool, network.pods))
        if taken > network.pods.num_addresses:
            cubes = network.pods.num_addresses * block // taken
            yield Problem(
                path=f"{PATH}.pods",
                value=network.pods,
                rule=f"carries {cubes} of the {block} cubes a block may have "
                f"(tpuPools.{name}), and cannot change without a new cluster",
                fix=f"use a /{_prefix(taken)}",
                source=MAX_PODS,
                severity="warning",
            )


def many_hosts_want_jumbo_frames(
    network: Network, tpu_pools: dict[str, TpuPool]
) -> Iterator[Problem]:
    multi_host = any(pool.slice.multi_host for _, pool in sized(tpu_pools))
    if network.mtu < JUMBO_MTU and multi_host:
        yield Problem(
            path=f"{PATH}.mtu",
            value=network.mtu,
            rule="slices of many hosts lose throughput below the largest MTU",
            fix=f"use {JUMBO_MTU}; machines must restart to change it later",
            source=Source("AI-Hypercomputer/tpu-recipes", READ),
            severity="warning",
        )


def network_extras_exist_and_are_free(network: Network) -> Iterator[Problem]:
    for part, hatch in NETWORK.items():
        yield from extras(f"{PATH}.extra.{part}", getattr(network.extra, part), hatch)


def _nodes(cluster: Cluster, tpu_pools: dict[str, TpuPool]) -> int:
    system = cluster.system_pool.max + SYSTEM_SURGE
    return system + sum(pool.max_hosts + surge_hosts(pool) for _, pool in sized(tpu_pools))


def _pod_demand(
    pods: IPv4Network, cluster: Cluster, tpu_pools: dict[str, TpuPool]
) -> tuple[int, int, set[int]]:
    """Pod addresses system and TPU nodes may take of such a range, and the TPU nodes' limits."""
    system = pod_addresses(cluster.system_pool.max + SYSTEM_SURGE, SYSTEM_PODS_PER_NODE)
    tpu, limits = 0, set()
    for _, pool in sized(tpu_pools):
        limit = pods_per_node(pool, pods)
        tpu += pod_addresses(pool.max_hosts + surge_hosts(pool), limit)
        limits.add(limit)
    return system, tpu, limits


def _fitting(pods: IPv4Network, cluster: Cluster, tpu_pools: dict[str, TpuPool]) -> int:
    """The longest prefix that would do; a roomier range may raise the limits, and so the demand."""
    for prefix in range(pods.prefixlen, 0, -1):
        system, tpu, _ = _pod_demand(pods.supernet(new_prefix=prefix), cluster, tpu_pools)
        if system + tpu <= 1 << (32 - prefix):
            return prefix
    return 0


def _prefix(addresses: int) -> int:
    """The longest prefix that holds so many addresses."""
    return 32 - (addresses - 1).bit_length()


CHECKS = (
    ranges_are_disjoint,
    ranges_are_usable,
    proxies_have_room,
    the_control_plane_has_a_28,
    services_have_room,
    every_node_has_an_address,
    every_pod_has_an_address,
    the_pod_range_carries_a_whole_block,
    many_hosts_want_jumbo_frames,
    network_extras_exist_and_are_free,
)
