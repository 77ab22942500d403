"""Every node pool, with TPUs or without."""

from __future__ import annotations

from collections.abc import Iterator

from rules import links
from rules.cluster import GOLDEN
from rules.kinds import CLUSTER, NODE_POOL
from rules.model import DROP, Guard, Resource, Severity, Stack, rule
from rules.pools import TPU_POOL, capacity_kind, is_tpu
from rules.ranges import known

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


@rule(
    "GKE-19",
    "The kubelet's unauthenticated port is closed.",
    severity=Severity.MEDIUM,
    on=NODE_POOL,
    whole_stack=True,
    fix='Set insecureKubeletReadonlyPortEnabled to "FALSE" on the pool or in nodePoolDefaults.',
    url=links.HARDENING,
    guards=[Guard("nodeConfig.kubeletConfig.insecureKubeletReadonlyPortEnabled", "TRUE")],
)
def kubelet_port_closed(pool: Resource, stack: Stack) -> Iterator[str]:
    path = "nodeConfig.kubeletConfig.insecureKubeletReadonlyPortEnabled"
    default = "nodePoolDefaults.nodeConfigDefaults.insecureKubeletReadonlyPortEnabled"
    closed = pool.flag(path)
    if closed is None:
        closed = False if any(c.flag(default) is False for c in stack.of(CLUSTER)) else None
    if closed is not False:
        yield f'{path} is not "FALSE": set it here or in the cluster\'s {default}'


@rule(
    "NP-01",
    "Nodes run as a service account of their own.",
    severity=Severity.HIGH,
    on=NODE_POOL,
    fix="Set nodeConfig.serviceAccount to an account made for the nodes.",
    url=links.HARDENING,
    refs=[links.cis("5.2.1"), links.checkov("CKV2_GCP_1"), links.trivy("GCP-0050")],
    guards=[
        Guard("nodeConfig.serviceAccount", DROP),
        Guard("nodeConfig.serviceAccount", "default"),
        Guard("nodeConfig.serviceAccount", "1-compute@developer.gserviceaccount.com"),
    ],
)
def own_service_account(pool: Resource) -> Iterator[str]:
    # An account that is still to be made is one of the stack's.
    account = known(pool, "nodeConfig.serviceAccount") or ""
    default = account == "default" or account.endswith("-compute@developer.gserviceaccount.com")
    if default or pool.node("nodeConfig.serviceAccount").value in (None, ""):
        yield "nodeConfig.serviceAccount is the default account: make one for the nodes"


@rule(
    "NP-02",
    "The node account's access is decided by its roles alone.",
    severity=Severity.MEDIUM,
    on=NODE_POOL,
    fix="Set nodeConfig.oauthScopes to cloud-platform only.",
    url=links.HARDENING,
    guards=[Guard("nodeConfig.oauthScopes", ["https://www.googleapis.com/auth/devstorage.full"])],
)
def one_scope(pool: Resource) -> Iterator[str]:
    scopes = pool.texts("nodeConfig.oauthScopes")
    if scopes and set(scopes) != {CLOUD_PLATFORM}:
        yield f"nodeConfig.oauthScopes lists more than {CLOUD_PLATFORM}: keep that one only"


@rule(
    "NP-03",
    "Pods see the GKE metadata server, not the node's.",
    severity=Severity.HIGH,
    on=NODE_POOL,
    fix="Set nodeConfig.workloadMetadataConfig.mode to GKE_METADATA.",
    url=links.WORKLOAD_IDENTITY,
    refs=[links.cis("5.4.1"), links.checkov("CKV_GCP_69"), links.trivy("GCP-0057"), GOLDEN],
    guards=[
        Guard("nodeConfig.workloadMetadataConfig.mode", "GCE_METADATA"),
        Guard("nodeConfig.workloadMetadataConfig", DROP),
    ],
)
def gke_metadata(pool: Resource) -> Iterator[str]:
    if pool.text("nodeConfig.workloadMetadataConfig.mode") != "GKE_METADATA":
        yield "nodeConfig.workloadMetadataConfig.mode is not GKE_METADATA: set it"


@rule(
    "NP-04",
    "Nodes run Container-Optimized OS.",
    severity=Severity.LOW,
    on=NODE_POOL,
    fix="Leave nodeConfig.imageType unset or COS_CONTAINERD.",
    url=links.HARDENING,
    refs=[links.cis("5.5.1"), links.checkov("CKV_GCP_22"), links.trivy("GCP-0054")],
    guards=[Guard("nodeConfig.imageType", "UBUNTU_CONTAINERD")],
)
def cos_image(pool: Resource) -> Iterator[str]:
    image = pool.text("nodeConfig.imageType")
    if image and image.upper() != "COS_CONTAINERD":
        yield f"nodeConfig.imageType is {image}: use COS_CONTAINERD, which dynamic slicing requires"


@rule(
    "NP-05",
    "Nodes boot securely and their integrity is watched.",
    severity=Severity.MEDIUM,
    on=NODE_POOL,
    fix="Set nodeConfig.shieldedInstanceConfig when the pool is made; a change replaces the pool.",
    url=links.HARDENING,
    refs=[links.cis("5.5.6"), links.cis("5.5.7"), links.checkov("CKV_GCP_68"), GOLDEN],
    guards=[
        Guard("nodeConfig.shieldedInstanceConfig.enableSecureBoot", False),
        Guard("nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring", False),
        Guard("nodeConfig.shieldedInstanceConfig", DROP),
    ],
)
def secure_boot(pool: Resource) -> Iterator[str]:
    shield = pool.node("nodeConfig.shieldedInstanceConfig")
    if shield.flag("enableSecureBoot") is not True:
        yield f"{shield.at('enableSecureBoot')} is off (the default): set it to true"
    if shield.flag("enableIntegrityMonitoring") is False:
        yield f"{shield.at('enableIntegrityMonitoring')} is off: leave it on"


@rule(
    "NP-06",
    "Nodes are repaired and upgraded by GKE.",
    severity=Severity.LOW,
    on=NODE_POOL,
    fix="Leave management.autoRepair and autoUpgrade on; flex-start alone needs autoRepair off.",
    url=links.HARDENING,
    refs=[links.cis("5.5.2"), links.cis("5.5.3"), links.checkov("CKV_GCP_9")],
    guards=[
        Guard("management.autoUpgrade", False),
        Guard("management.autoRepair", False, when=lambda p: capacity_kind(p) != "flex-start"),
    ],
)
def managed(pool: Resource) -> Iterator[str]:
    if pool.flag("management.autoRepair") is False and capacity_kind(pool) != "flex-start":
        yield "management.autoRepair is off: leave it on, as it is by default"
    if pool.flag("management.autoUpgrade") is False:
        yield "management.autoUpgrade is off: leave it on and hold upgrades with an exclusion"


@rule(
    "NP-07",
    "The legacy metadata endpoints stay off.",
    severity=Severity.HIGH,
    on=NODE_POOL,
    fix='Leave nodeConfig.metadata.disable-legacy-endpoints at "true".',
    url=links.HARDENING,
    refs=[links.trivy("GCP-0048")],
    guards=[Guard(("nodeConfig", "metadata", "disable-legacy-endpoints"), "false")],
)
def no_legacy_metadata(pool: Resource) -> Iterator[str]:
    if pool.flag(("nodeConfig", "metadata", "disable-legacy-endpoints")) is False:
        yield 'nodeConfig.metadata.disable-legacy-endpoints is "false": set "true"'


@rule(
    "NP-08",
    "No pool opts out of private nodes.",
    severity=Severity.HIGH,
    on=NODE_POOL,
    fix="Leave networkConfig.enablePrivateNodes unset or true.",
    url=links.ISOLATION,
    refs=[links.cis("5.6.5")],
    guards=[Guard("networkConfig.enablePrivateNodes", False)],
)
def private_pool(pool: Resource) -> Iterator[str]:
    if pool.flag("networkConfig.enablePrivateNodes") is False:
        yield "networkConfig.enablePrivateNodes is false: nodes would get public addresses"


@rule(
    "NP-09",
    "Boot disks are encrypted with a key of the project.",
    severity=Severity.LOW,
    on=NODE_POOL,
    fix="Set nodeConfig.bootDiskKmsKey when the pool is made; a change replaces the pool.",
    url=links.HARDENING,
    refs=[links.cis("5.9.2")],
    guards=[Guard("nodeConfig.bootDiskKmsKey", DROP)],
)
def boot_disk_key(pool: Resource) -> Iterator[str]:
    if not pool.has("nodeConfig.bootDiskKmsKey"):
        yield "nodeConfig.bootDiskKmsKey is missing: name a Cloud KMS key"


@rule(
    "NP-10",
    "Nodes use the gVNIC network interface.",
    severity=Severity.LOW,
    on=NODE_POOL,
    fix="Set nodeConfig.gvnic.enabled.",
    url=links.TPUS,
    refs=[GOLDEN],
    guards=[Guard("nodeConfig.gvnic.enabled", False), Guard("nodeConfig.gvnic", DROP)],
)
def gvnic(pool: Resource) -> Iterator[str]:
    if pool.flag("nodeConfig.gvnic.enabled") is not True:
        yield "nodeConfig.gvnic.enabled is off: set it to true"


@rule(
    "NP-12",
    "Images are streamed, so that large ones start sooner.",
    severity=Severity.LOW,
    on=TPU_POOL,
    fix="Set nodeConfig.gcfsConfig.enabled.",
    url=links.TPUS,
    refs=[GOLDEN],
    guards=[Guard("nodeConfig.gcfsConfig.enabled", False), Guard("nodeConfig.gcfsConfig", DROP)],
)
def image_streaming(pool: Resource) -> Iterator[str]:
    if pool.flag("nodeConfig.gcfsConfig.enabled") is not True:
        yield "nodeConfig.gcfsConfig.enabled is off: set it to true"


@rule(
    "NP-13",
    "A pool without TPUs, in a standard zone, runs the controllers.",
    severity=Severity.HIGH,
    on=TPU_POOL,
    whole_stack=True,
    fix="Add a system pool; controllers cannot land on TPU nodes, which are tainted.",
    url=links.TPUS,
    guards=[
        Guard((), DROP, on=NODE_POOL.where("system pools", lambda p: not is_tpu(p))),
        Guard(
            "nodeLocations",
            ["us-central1-ai1a"],
            on=NODE_POOL.where("system pools", lambda p: not is_tpu(p)),
        ),
    ],
)
def system_pool_exists(pool: Resource, stack: Stack) -> Iterator[str]:
    pools = stack.of(NODE_POOL)
    if not stack.of(CLUSTER) or pool is not next(p for p in pools if is_tpu(p)):
        return  # the cluster is somebody else's, or another pool has reported it
    if not any(_in_standard_zone(p) for p in pools if not is_tpu(p)):
        yield "no pool without TPUs lies in a standard zone: add a system pool for the controllers"


def _in_standard_zone(pool: Resource) -> bool:
    zones = pool.texts("nodeLocations") or [pool.text("location") or ""]
    return any("-ai" not in zone for zone in zones)


@rule(
    "NP-15",
    "No SSH keys or start-up scripts in node metadata.",
    severity=Severity.MEDIUM,
    on=NODE_POOL,
    fix="Remove them; configure nodes through fields of the pool.",
    url=links.NODE_CONFIG,
    guards=[
        Guard(("nodeConfig", "metadata", "ssh-keys"), "user:ssh-ed25519 AAAA"),
        Guard(("nodeConfig", "metadata", "startup-script"), "true"),
    ],
)
def no_scripts_in_metadata(pool: Resource) -> Iterator[str]:
    for key in ("ssh-keys", "startup-script", "startup-script-url", "user-data"):
        if pool.has(("nodeConfig", "metadata", key)):
            yield f"nodeConfig.metadata.{key} is set: remove it"


RULES = [
    kubelet_port_closed,
    own_service_account,
    one_scope,
    gke_metadata,
    cos_image,
    secure_boot,
    managed,
    no_legacy_metadata,
    private_pool,
    boot_disk_key,
    gvnic,
    image_streaming,
    system_pool_exists,
    no_scripts_in_metadata,
]
