"""How many addresses nodes and pods take.

GKE gives each node a range of at least twice its pod limit, rounded up to a power of two
(docs 'Configure maximum Pods per node').
"""

from ipaddress import IPv4Network

from catalog.accelerators import Slice
from catalog.source import docs

MAX_PODS = docs("Configure maximum Pods per node")

TPU_POD_LIMITS = (32, 16)
"""Pod limits of TPU nodes, roomiest first; xpk and tpu-provisioner settle on 15.

8, GKE's lowest, is full before any workload: the agents of a node (Dataplane V2, Cloud Storage
FUSE, Secret Manager and disk CSI drivers, managed Prometheus, metadata server, device plugin,
logging) are about as many (GKE docs of each feature, read 2026-08).
"""

SYSTEM_PODS_PER_NODE = 110
"""GKE's default, for nodes that carry many small pods."""

RESERVED_NODE_ADDRESSES = 4
"""Google keeps four addresses of every primary subnet range."""


def addresses_per_node(pods_per_node: int) -> int:
    """Pod addresses GKE sets aside for one node: a power of two of at least twice the limit."""
    return 1 << (2 * pods_per_node - 1).bit_length()


def pod_addresses(nodes: int, pods_per_node: int) -> int:
    return nodes * addresses_per_node(pods_per_node)


def tpu_pods_per_node(pods: IPv4Network, shape: Slice) -> int:
    """The roomiest pod limit at which half the range carries a whole TPU pod of these hosts.

    It depends on what never changes in a node pool, its range and its machine type: the limit is
    fixed at a pool's creation, so growth must not move it.
    """
    hosts = shape.accelerator.pod_chips // shape.machine.chips
    half = pods.num_addresses // 2
    fitting = (limit for limit in TPU_POD_LIMITS if pod_addresses(hosts, limit) <= half)
    return next(fitting, TPU_POD_LIMITS[-1])
