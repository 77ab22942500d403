"""What a planned change does to the people who use the stack, with the source of each claim.

Durations are what others measured on their systems; nobody measured them on this one.
"""

from dataclasses import dataclass
from enum import IntEnum

from ops.preview.plan import Change, Operation, path_in


class Risk(IntEnum):
    """Classes of a change, mildest first."""

    SAFE = 0
    RESTARTS_PODS = 1
    REMOVES = 2
    ROLLS_NODES = 3
    REPLACES_POOL = 4
    OUTAGE = 5
    LOSES_DATA = 6

    @property
    def text(self) -> str:
        return _TEXTS[self][0]

    def counted(self, number: int) -> str:
        """`1 outage`, `2 outages`."""
        return f"{number} {_TEXTS[self][number != 1]}"


_TEXTS = {
    Risk.SAFE: ("safe", "safe"),
    Risk.RESTARTS_PODS: ("pod restart", "pod restarts"),
    Risk.REMOVES: ("removal", "removals"),
    Risk.ROLLS_NODES: ("node roll", "node rolls"),
    Risk.REPLACES_POOL: ("pool loss", "pool losses"),
    Risk.OUTAGE: ("outage", "outages"),
    Risk.LOSES_DATA: ("data loss", "data losses"),
}

CLUSTER = "gcp:container/cluster:Cluster"
NODE_POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
RELEASE = "kubernetes:helm.sh/v3:Release"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"

STATEFUL = frozenset(
    {
        CLUSTER,
        BUCKET,
        "gcp:kms/keyRing:KeyRing",
        "gcp:kms/cryptoKey:CryptoKey",
        "gcp:secretmanager/secret:Secret",
        "gcp:compute/reservation:Reservation",
        "gcp:compute/resourcePolicy:ResourcePolicy",
        "gcp:filestore/instance:Instance",
        "gcp:parallelstore/instance:Instance",
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:PersistentVolumeClaim",
        "kubernetes:core/v1:PersistentVolume",
        "kubernetes:core/v1:Secret",
        CRD,
    }
)
"""Kinds that hold what a new one would not have. TPU pools belong too: see `is_stateful`."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What to expect; `minutes` is a range somebody measured."""

    risk: Risk
    text: str
    minutes: tuple[int, int] | None = None
    source: str = ""

    def __str__(self) -> str:
        if not self.minutes:
            return self.text
        low, high = self.minutes
        span = f"{low}" if low == high else f"{low}-{high}"
        return f"{self.text} (about {span} min, {self.source})"


@dataclass(frozen=True, kw_only=True)
class _Rule:
    types: tuple[str, ...]
    operations: tuple[Operation, ...]
    effect: Effect
    properties: tuple[str, ...] = ()


_GONE: tuple[Operation, ...] = ("delete", "replace", "forget")
_LOGS = "seven public apply logs; hashicorp/terraform-provider-google#1441"
_WORKLOADS = (
    "kubernetes:apps/v1:Deployment",
    "kubernetes:apps/v1:StatefulSet",
    "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
    "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
)
_RELOAD = Effect(
    risk=Risk.RESTARTS_PODS,
    text="its pods start again and load the model anew; one replica has no stand-in",
    minutes=(10, 10),
    source="Gemma-class on Trillium, AI-Hypercomputer/tpu-recipes",
)
_ROLL = Effect(
    risk=Risk.ROLLS_NODES,
    text="GKE re-creates the pool's nodes; TPU VMs do not migrate live",
    minutes=(22, 22),
    source="one A4X pool, GoogleCloudPlatform/magic-modules#17643",
)
_NO_UPDATE = Effect(
    risk=Risk.SAFE,
    text="the provider has no update code for this property: the edit reaches nothing and shows "
    "again in every preview (terraform-provider-google-beta 93c65b2)",
)

_RULES = (
    _Rule(
        types=(CLUSTER,),
        operations=_GONE,
        effect=Effect(
            risk=Risk.OUTAGE,
            text="every node, pod and object goes with the cluster, then pools, operators and "
            "models start from nothing; in place it fails midway: destroy, then up",
            minutes=(4, 15),
            source=f"control plane alone, {_LOGS}",
        ),
    ),
    _Rule(
        types=(
            "gcp:compute/network:Network",
            "gcp:compute/subnetwork:Subnetwork",
        ),
        operations=_GONE,
        effect=Effect(risk=Risk.OUTAGE, text="takes the cluster and everything in it along"),
    ),
    _Rule(
        types=("gcp:compute/router:Router", "gcp:compute/routerNat:RouterNat"),
        operations=_GONE,
        effect=Effect(
            risk=Risk.OUTAGE,
            text="private nodes have no way out meanwhile: image and model downloads fail",
        ),
    ),
    _Rule(
        types=("gcp:compute/address:Address", "gcp:compute/globalAddress:GlobalAddress"),
        operations=_GONE,
        effect=Effect(risk=Risk.OUTAGE, text="clients that hold the address lose the endpoint"),
    ),
    _Rule(
        types=("gcp:compute/resourcePolicy:ResourcePolicy",),
        operations=_GONE,
        effect=Effect(
            risk=Risk.REPLACES_POOL,
            text="refused while a pool uses the policy: its pools have to go first",
        ),
    ),
    _Rule(
        types=("gcp:compute/reservation:Reservation",),
        operations=_GONE,
        effect=Effect(risk=Risk.OUTAGE, text="the reserved chips go back and may not return"),
    ),
    _Rule(
        types=(BUCKET,),
        operations=_GONE,
        effect=Effect(
            risk=Risk.LOSES_DATA,
            text="its objects go with forceDestroy; without it the step fails while one is left",
        ),
    ),
    _Rule(
        types=("gcp:filestore/instance:Instance", "gcp:parallelstore/instance:Instance"),
        operations=_GONE,
        effect=Effect(risk=Risk.LOSES_DATA, text="the files on it are gone"),
    ),
    _Rule(
        types=("gcp:kms/keyRing:KeyRing", "gcp:kms/cryptoKey:CryptoKey"),
        operations=_GONE,
        effect=Effect(risk=Risk.LOSES_DATA, text="what the key sealed cannot be read any more"),
    ),
    _Rule(
        types=("gcp:secretmanager/secret:Secret",),
        operations=_GONE,
        effect=Effect(
            risk=Risk.LOSES_DATA, text="every version is gone and pods that mount it do not start"
        ),
    ),
    _Rule(
        types=("gcp:secretmanager/secretVersion:SecretVersion",),
        operations=_GONE,
        effect=Effect(risk=Risk.RESTARTS_PODS, text="pods read the new version when they start"),
    ),
    _Rule(
        types=("kubernetes:core/v1:Secret",),
        operations=_GONE,
        effect=Effect(risk=Risk.RESTARTS_PODS, text="pods that start meanwhile do not find it"),
    ),
    _Rule(
        types=("kubernetes:core/v1:Namespace",),
        operations=_GONE,
        effect=Effect(risk=Risk.LOSES_DATA, text="every object in the namespace goes with it"),
    ),
    _Rule(
        types=(CRD,),
        operations=_GONE,
        effect=Effect(risk=Risk.LOSES_DATA, text="every object of the kind goes with it"),
    ),
    _Rule(
        types=("kubernetes:core/v1:PersistentVolumeClaim", "kubernetes:core/v1:PersistentVolume"),
        operations=_GONE,
        effect=Effect(risk=Risk.LOSES_DATA, text="the volume's files may go with it"),
    ),
    _Rule(
        types=(RELEASE,),
        operations=_GONE,
        effect=Effect(
            risk=Risk.OUTAGE,
            text="the operator is away, and definitions its chart owns take their objects along",
        ),
    ),
    _Rule(
        types=_WORKLOADS,
        operations=("delete", "forget"),
        effect=Effect(risk=Risk.OUTAGE, text="it stops answering"),
    ),
    _Rule(types=_WORKLOADS, operations=("replace",), effect=_RELOAD),
    _Rule(
        types=(
            "kubernetes:core/v1:Service",
            "kubernetes:gateway.networking.k8s.io/v1:Gateway",
            "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
            "kubernetes:inference.networking.k8s.io/v1:InferencePool",
        ),
        operations=_GONE,
        effect=Effect(risk=Risk.OUTAGE, text="requests fail until a new one is programmed"),
    ),
    _Rule(
        types=(
            "kubernetes:kueue.x-k8s.io/v1beta1:ClusterQueue",
            "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue",
            "kubernetes:kueue.x-k8s.io/v1beta1:LocalQueue",
            "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue",
        ),
        operations=_GONE,
        effect=Effect(risk=Risk.RESTARTS_PODS, text="nothing is admitted meanwhile"),
    ),
    _Rule(
        types=(NODE_POOL,),
        operations=("update",),
        properties=("placementPolicy.type", "placementPolicy.tpuTopology"),
        effect=_NO_UPDATE,
    ),
    _Rule(
        types=(NODE_POOL,),
        operations=("update",),
        properties=(
            "version",
            "nodeConfig.machineType",
            "nodeConfig.diskType",
            "nodeConfig.diskSizeGb",
            "nodeConfig.bootDisk",
            "nodeConfig.imageType",
            "nodeConfig.kubeletConfig",
            "nodeConfig.linuxNodeConfig",
            "nodeConfig.containerdConfig",
            "nodeConfig.gcfsConfig",
            "nodeConfig.gvnic",
            "nodeConfig.workloadMetadataConfig",
        ),
        effect=_ROLL,
    ),
    _Rule(
        types=(CLUSTER,),
        operations=("update",),
        properties=("minMasterVersion", "releaseChannel", "nodeVersion"),
        effect=Effect(
            risk=Risk.ROLLS_NODES,
            text="the control plane moves first, the pools' nodes follow in their windows",
        ),
    ),
    _Rule(
        types=("gcp:compute/network:Network",),
        operations=("update",),
        properties=("mtu",),
        effect=Effect(
            risk=Risk.ROLLS_NODES, text="machines take the new MTU only when they restart"
        ),
    ),
    _Rule(
        types=_WORKLOADS,
        operations=("update",),
        properties=(
            "spec.template",
            "spec.leaderWorkerTemplate",
            "spec.replicatedJobs",
        ),
        effect=_RELOAD,
    ),
    _Rule(
        types=(RELEASE,),
        operations=("update",),
        effect=Effect(
            risk=Risk.RESTARTS_PODS,
            text="the operator restarts; its webhooks answer 10-30 s after it is ready "
            "(kubernetes-sigs/kueue#13036)",
        ),
    ),
    _Rule(
        types=(BUCKET,),
        operations=("update",),
        properties=("lifecycleRules", "softDeletePolicy", "retentionPolicy", "versioning"),
        effect=Effect(risk=Risk.REMOVES, text="changes which objects are kept, and for how long"),
    ),
)

_TPU_POOL_GONE = Effect(
    risk=Risk.REPLACES_POOL,
    text="its slices end, draining honours no disruption budget (pulumi/pulumi-gcp#255), and "
    "without a reservation the chips may not come back",
)
_CPU_POOL_GONE = Effect(
    risk=Risk.REPLACES_POOL,
    text="operators, webhooks and the router move or wait",
    minutes=(2, 35),
    source="2i2c-org/infrastructure#2768; NVIDIA/aicr#2065",
)
_FEWER = Effect(risk=Risk.RESTARTS_PODS, text="the nodes taken away end their pods")
_MULTI_HOST = Effect(
    risk=Risk.SAFE,
    text="GKE refuses to resize a multi-host TPU pool (HTTP 501, reported in the field): make a "
    "new pool instead",
)
_OTHER_GONE = Effect(risk=Risk.REMOVES, text="it is away until something makes it again")
NOTHING = Effect(risk=Risk.SAFE, text="no disruption known")


def is_tpu_pool(change: Change) -> bool:
    if change.type != NODE_POOL:
        return False
    return any(
        _machine_type(state.inputs).startswith(("ct4p", "ct5", "ct6", "tpu"))
        for state in (change.old, change.new)
        if state
    )


def is_stateful(change: Change) -> bool:
    """Whether a new one would lack what the old one holds: data, capacity, a name others use."""
    return change.type in STATEFUL or is_tpu_pool(change)


def effects(change: Change) -> list[Effect]:
    """Everything known of a change, worst first."""
    if change.own or change.operation in ("create", "import", "same", "read"):
        return [NOTHING]
    if change.type == NODE_POOL and change.operation in _GONE:
        return [_TPU_POOL_GONE if is_tpu_pool(change) else _CPU_POOL_GONE]
    found = [rule.effect for rule in _RULES if _applies(rule, change)]
    if change.type == NODE_POOL:
        found.extend(_resize(change))
    if not found:
        found = [_OTHER_GONE if change.operation in _GONE else NOTHING]
    return sorted(found, key=lambda effect: -effect.risk)


def risk(change: Change) -> Risk:
    return effects(change)[0].risk


def _applies(rule: _Rule, change: Change) -> bool:
    return (
        change.type in rule.types
        and change.operation in rule.operations
        and (
            not rule.properties
            or any(
                path_in(leaf.path, prefix) for leaf in change.leaves for prefix in rule.properties
            )
        )
    )


def _resize(change: Change) -> list[Effect]:
    """A pool that grows disturbs nobody; one that shrinks does, and a slice does neither."""
    found = []
    placed = any(
        (state.inputs.get("placementPolicy") or {}) for state in (change.old, change.new) if state
    )
    for leaf in change.leaves:
        if leaf.path in ("nodeCount", "initialNodeCount"):
            if placed and is_tpu_pool(change):
                found.append(_MULTI_HOST)
            if _number(leaf.after) < _number(leaf.before):
                found.append(_FEWER)
    return found


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _machine_type(inputs: dict[str, object]) -> str:
    node = inputs.get("nodeConfig")
    machine = node.get("machineType") if isinstance(node, dict) else None
    return machine if isinstance(machine, str) else ""
