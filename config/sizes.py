"""What follows from what a stack says about its pools for networks and upgrades."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network

from catalog.addresses import tpu_pods_per_node
from catalog.upgrades import surge
from config.cluster import Cluster
from config.tpu_pools import DynamicPool, Reservation, TpuPool

SYSTEM_SURGE = 1
"""One node beside the system pool while it is upgraded."""


def sized(pools: Mapping[str, TpuPool]) -> Iterator[tuple[str, TpuPool]]:
    """The pools whose words name one slice; the others are reported elsewhere."""
    return (
        (name, pool)
        for name, pool in pools.items()
        if isinstance(pool, DynamicPool) or len(pool.candidates()) == 1
    )


def surge_hosts(pool: TpuPool) -> int:
    """Hosts an upgrade may add to a pool."""
    return surge(pool.slice, reserved=isinstance(pool.capacity, Reservation)).max_surge


def most_nodes(cluster: Cluster, pools: Mapping[str, TpuPool]) -> int:
    """Nodes of the cluster when every pool is at its largest."""
    return cluster.system_pool.max + sum(pool.max_hosts for pool in pools.values())


def pods_per_node(pool: TpuPool, pods: IPv4Network) -> int:
    """The pod limit of a pool's nodes, the same at every size of the pool."""
    return tpu_pods_per_node(pods, pool.slice)
