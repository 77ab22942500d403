"""Physical names and the limits Google sets on them."""

from catalog.source import Source, docs

POOL_LIMIT = 40
ACCOUNT_LIMIT = 30
"""Service-account ids have 6 to 30 characters."""
POLICY_LIMIT = 63
"""Names of Compute Engine's resources, workload policies among them, follow RFC 1035."""
INSTANCE_CUT = 32
"""GKE cuts cluster and pool names to this many characters together in instance names."""

NAMING = docs("Naming resources")
GKE_NAMES = docs("Quotas and limits of GKE")
ACCOUNTS = docs("Create service accounts")
INSTANCE_NAMES = Source(
    "GoogleCloudPlatform/cluster-toolkit 1047080, gke-node-pool README", GKE_NAMES.read
)

SYSTEM_POOL = "system"

PROVISION_ONLY = "PROVISION_ONLY"
"""Mode of the workload policy of cubes: hosts without links, which slices join later."""


def node_account(name: str) -> str:
    """Id of the service account the nodes run as."""
    return f"{name}-nodes"


def node_tag(name: str) -> str:
    """Network tag by which firewall rules find the nodes."""
    return f"{name}-node"


def cube_pool(pool: str, index: int) -> str:
    """Name of one cube's node pool; three digits, so that growth renames nothing."""
    return f"{pool}-{index:03d}"


def workload_policy(stack: str, pool: str, shape: str, mode: str | None) -> str:
    """A policy carries its content in its name: another content is another policy."""
    return f"{stack}-{pool}-{shape}-{(mode or 'auto').lower().replace('_', '-')}"


LONGEST_STACK_NAME = ACCOUNT_LIMIT - len(node_account(""))
