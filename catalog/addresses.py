"""How many addresses nodes and pods take.

GKE gives each node a range of at least twice its pod limit, rounded up to a power of two
(docs 'Configure maximum Pods per node').
"""

from ipaddress import IPv4Network

from catalog.source import docs

MAX_PODS = docs("Configure maximum Pods per node")

TPU_POD_LIMITS = (32, 16, 8)
"""Pod limits tried for TPU nodes, roomiest first; xpk and tpu-provisioner settle on 15."""

SYSTEM_PODS_PER_NODE = 110
"""GKE's default, for nodes that carry many small pods."""

RESERVED_NODE_ADDRESSES = 4
"""Google keeps four addresses of every primary subnet range."""


def addresses_per_node(pods_per_node: int) -> int:
    """Pod addresses GKE sets aside for one node: a power of two of at least twice the limit."""
    return 1 << (2 * pods_per_node - 1).bit_length()


def pod_addresses(nodes: int, pods_per_node: int) -> int:
    return nodes * addresses_per_node(pods_per_node)


def tpu_pods_per_node(pods: IPv4Network, nodes: int) -> int:
    """The roomiest pod limit at which half the pod range carries `nodes` TPU nodes.

    It depends on the range and on the largest size the pool may ever have, never on today's
    size: the limit is fixed at a pool's creation, so growth must not move it.
    """
    half = pods.num_addresses // 2
    fitting = (limit for limit in TPU_POD_LIMITS if pod_addresses(nodes, limit) <= half)
    return next(fitting, TPU_POD_LIMITS[-1])
